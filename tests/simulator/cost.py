"""What one engine step costs: three laws, all in seconds.

A step is described by what it runs: decode streams, decode tokens (1 + draft tokens a stream), the context
those streams read (tokens), prompt tokens, and prompt pairs (each prompt token times the tokens before it).
``run_seconds`` prices a run of like decode-only steps at once, bit for bit as ``step_seconds`` would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class CostLaw(Protocol):
    """Seconds of a step as a function of its content. Never 0, never NaN."""

    @property
    def name(self) -> str: ...

    def step_seconds(self, streams: int, decode_tokens: int, context: int, prefill_tokens: int, pairs: float) -> float:
        """Seconds of one step."""
        ...

    def run_seconds(self, streams: int, context: Ints) -> Floats:
        """Seconds of decode-only steps without drafts, one per entry of ``context``."""
        ...


@dataclass(frozen=True)
class Linear:
    """base + stream x decode tokens + context x KV read + prefill x prompt tokens + pair x pairs."""

    base_seconds: float
    stream_seconds: float
    context_seconds: float
    prefill_seconds: float
    pair_seconds: float
    name: str = "linear"

    def step_seconds(self, streams: int, decode_tokens: int, context: int, prefill_tokens: int, pairs: float) -> float:
        decode = self.base_seconds + self.stream_seconds * decode_tokens + self.context_seconds * context
        if not prefill_tokens:
            return decode
        return decode + self.prefill_seconds * prefill_tokens + self.pair_seconds * pairs

    def run_seconds(self, streams: int, context: Ints) -> Floats:
        decode = self.base_seconds + self.stream_seconds * streams
        return np.asarray(decode + self.context_seconds * context, dtype=np.float64)


@dataclass(frozen=True)
class Roofline:
    """overhead + the larger of memory time (weights, KV) and arithmetic time (tokens, attention pairs)."""

    overhead_seconds: float
    weights_seconds: float
    """Reading all weights once."""
    kv_seconds: float
    """Reading the KV entry of one token."""
    token_seconds: float
    """Arithmetic of one token, decode or prompt."""
    pair_seconds: float
    name: str = "roofline"

    def step_seconds(self, streams: int, decode_tokens: int, context: int, prefill_tokens: int, pairs: float) -> float:
        memory = self.weights_seconds + self.kv_seconds * context
        work = self.token_seconds * (decode_tokens + prefill_tokens) + self.pair_seconds * (context + pairs)
        return self.overhead_seconds + (memory if memory >= work else work)

    def run_seconds(self, streams: int, context: Ints) -> Floats:
        memory = self.weights_seconds + self.kv_seconds * context
        work = self.token_seconds * streams + self.pair_seconds * (context + 0.0)
        return np.asarray(self.overhead_seconds + np.maximum(memory, work), dtype=np.float64)


GRAPH_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
"""Batch sizes for which a decode graph was captured, as engines choose them: other batches are padded up."""


@dataclass(frozen=True)
class Graphs:
    """Steps as a GPU with captured graphs runs them; no method was fitted on this one.

    Decode-only steps are padded to the next captured batch size. A step with prompt tokens, or too large for
    any graph, is launched kernel by kernel (``eager_seconds``). Prompt tokens are padded to tiles and small
    chunks do not fill the machine (``sqrt(tokens^2 + knee^2)``); half of the smaller of the two parts hides
    behind the larger.
    """

    base_seconds: float
    row_seconds: float
    context_seconds: float
    eager_seconds: float
    prefill_seconds: float
    pair_seconds: float
    knee_tokens: float = 256.0
    tile_tokens: int = 64
    name: str = "graphs"
    _padded: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table, size = [], iter((0, *GRAPH_SIZES))
        top = next(size)
        for rows in range(GRAPH_SIZES[-1] + 1):
            while top < rows:
                top = next(size)
            table.append(top)
        object.__setattr__(self, "_padded", tuple(table))

    def _decode_seconds(self, rows: int) -> float:
        if rows < len(self._padded):
            return self.base_seconds + self.row_seconds * self._padded[rows]
        return self.base_seconds + self.eager_seconds + self.row_seconds * rows

    def step_seconds(self, streams: int, decode_tokens: int, context: int, prefill_tokens: int, pairs: float) -> float:
        if not prefill_tokens:
            return self._decode_seconds(decode_tokens) + self.context_seconds * context
        decode = self.base_seconds + self.row_seconds * decode_tokens + self.context_seconds * context
        tiles = -(-prefill_tokens // self.tile_tokens) * self.tile_tokens
        prefill = self.prefill_seconds * math.hypot(tiles, self.knee_tokens) + self.pair_seconds * pairs
        return self.eager_seconds + decode + prefill - 0.5 * min(decode, prefill)

    def run_seconds(self, streams: int, context: Ints) -> Floats:
        return np.asarray(self._decode_seconds(streams) + self.context_seconds * context, dtype=np.float64)


def scale(law: CostLaw, factor: float) -> CostLaw:
    """The same law on a machine ``factor`` times slower."""
    if not isinstance(law, (Linear, Roofline, Graphs)):
        raise TypeError(f"cannot scale {type(law).__name__}")
    seconds = {name: getattr(law, name) * factor for name in vars(law) if name.endswith("_seconds")}
    return replace(law, **seconds)


@dataclass(frozen=True)
class Slowed:
    """Another machine: every step takes ``factor`` times as long."""

    law: CostLaw
    factor: float
    name: str = "slowed"

    def step_seconds(self, streams: int, decode_tokens: int, context: int, prefill_tokens: int, pairs: float) -> float:
        return self.factor * self.law.step_seconds(streams, decode_tokens, context, prefill_tokens, pairs)

    def run_seconds(self, streams: int, context: Ints) -> Floats:
        return self.factor * self.law.run_seconds(streams, context)
