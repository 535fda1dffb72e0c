"""Histogram edges as the engines ship them, and others an operator could have chosen. Seconds or tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

Edges = tuple[float, ...]


def one_two_five(highest: int) -> Edges:
    """1, 2, 5, 10, 20, 50, ... up to ``highest``: vLLM's token buckets, which end at max_model_len."""
    out: list[float] = []
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power > highest:
                return tuple(out)
            out.append(float(digit * power))
        power *= 10


@dataclass(frozen=True)
class Layout:
    """Finite edges by kind of histogram."""

    gap: Edges
    ttft: Edges
    request: Edges
    iteration: Edges = ()
    queue: Edges = ()
    stage: Edges = ()
    tokens: Edges = ()
    """Empty: 1-2-5 up to the context."""


def _edges(text: str) -> Edges:
    return tuple(float(word) for word in text.split())


VLLM = Layout(
    gap=_edges("0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"),
    ttft=_edges("0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"),
    request=_edges("0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"),
    iteration=_edges("1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384"),
)
"""vLLM 0.32."""

SGLANG = Layout(
    gap=_edges("0.002 0.004 0.006 0.008 0.01 0.015 0.02 0.025 0.03 0.035 0.04 0.06 0.08 0.1 0.2 0.4 0.6 0.8 1 2 4 6 8"),
    ttft=_edges("0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400"),
    request=_edges("0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400 600 1200 1800 2400"),
    queue=_edges(
        "0 0.001 0.005 0.01 0.05 0.1 0.2 0.5 1 2 3 4 5 10 15 20 30 40 50 60 70 80 90 100 200 300 400 500 600 "
        "700 800 900 1000 1200 1400 1600 1800 2000 2500 3000"
    ),
    stage=tuple(0.001 * 1.62**i for i in range(30)),
    tokens=_edges(
        "100 300 500 700 1000 1500 2000 3000 4000 5000 6000 7000 8000 9000 10000 12500 15000 17500 20000 "
        "22500 25000 27500 30000 35000 40000 60000 80000 100000 200000 300000 400000 600000 800000 "
        "1000000 1100000"
    ),
)
"""SGLang 0.5.23."""


def finer(layout: Layout, count: int = 96) -> Layout:
    """Gap buckets at ``count`` geometric edges from 0.2 ms to 80 s."""
    edges = np.geomspace(0.0002, 80.0, count)
    return replace(layout, gap=tuple(float(f"{edge:.6g}") for edge in edges))


def coarser(layout: Layout) -> Layout:
    """Every other edge of the gap and request-time buckets."""
    return replace(layout, gap=layout.gap[1::2], request=layout.request[1::2])
