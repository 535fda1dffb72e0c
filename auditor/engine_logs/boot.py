"""What one boot of an engine came to: settings, token pool, refusal, remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from auditor.engine_logs.refusals import Refusal
from auditor.model import Setting

BootState = Literal["started", "refused", "incomplete"]


@dataclass(frozen=True)
class Boot:
    """One boot as its log tells it. Tokens and GiB are those of one engine (one data-parallel rank).

    ``kv_gib`` is what the engine printed as memory for the KV cache; ``peak_gib``, ``non_torch_gib``,
    ``total_gib`` and ``utilization`` are the terms of the profiling sum where they were printed.
    ``hybrid`` is true where the log says that the pool is not linear in memory. ``by_hand`` is true where
    the pool was set by an option and so follows from no other setting.
    """

    file: str
    line: int
    engine: str | None
    version: str | None
    state: BootState
    settings: Mapping[str, Setting]
    kv_pool_tokens: int | None = None
    max_concurrency: float | None = None
    concurrency_context: int | None = None
    kv_gib: float | None = None
    block_size_tokens: int | None = None
    max_model_len: int | None = None
    refusal: Refusal | None = None
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """Stable names of the remarks behind ``warnings``."""
    engines: int = 1
    core: str | None = None
    source: str = ""
    total_gib: float | None = None
    utilization: float | None = None
    peak_gib: float | None = None
    non_torch_gib: float | None = None
    hybrid: bool = False
    by_hand: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)
    """Other start-up arguments, without addresses and secrets: two boots that differ here are not repeats."""

    @property
    def pool_from_concurrency(self) -> int | None:
        """Tokens that the printed maximum concurrency (two decimals) stands for: concurrency x context."""
        if self.max_concurrency is None or self.concurrency_context is None:
            return None
        return round(self.max_concurrency * self.concurrency_context)

    @property
    def pools_disagree(self) -> bool:
        """Printed pool and printed concurrency tell different pools, beyond the digits of the latter."""
        implied = self.pool_from_concurrency
        if implied is None or self.kv_pool_tokens is None or not self.concurrency_context:
            return False
        slack = 0.0051 * self.concurrency_context + 0.01 * self.kv_pool_tokens
        return abs(implied - self.kv_pool_tokens) > slack

    def to_json(self) -> dict[str, Any]:
        """The contract's ``boots[]`` member."""
        return {
            "file": self.file,
            "line": self.line,
            "source": self.source or None,
            "engine": self.engine,
            "version": self.version,
            "state": self.state,
            "settings": {name: setting.to_json() for name, setting in sorted(self.settings.items())},
            "kv_pool_tokens": self.kv_pool_tokens,
            "pool_from_concurrency": self.pool_from_concurrency,
            "kv_gib": self.kv_gib,
            "max_concurrency": self.max_concurrency,
            "block_size_tokens": self.block_size_tokens,
            "max_model_len": self.max_model_len,
            "engines": self.engines,
            "refusal": self.refusal.to_json() if self.refusal else None,
            "warnings": list(self.warnings),
        }
