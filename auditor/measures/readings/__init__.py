"""All ratios, shares and quantiles, once, by theme. Importing the package declares them in report order."""

from __future__ import annotations

from auditor.measures.readings import (
    distributions,
    passes,
    pool,
    rates,
    requests,
    speculation,
    steps,
    stretch,
    time,
    tokens,
)
from auditor.measures.readings.registry import READINGS, Declared, Found, compute_reading

__all__ = [
    "READINGS",
    "Declared",
    "Found",
    "compute_reading",
    "distributions",
    "passes",
    "pool",
    "rates",
    "requests",
    "speculation",
    "steps",
    "stretch",
    "time",
    "tokens",
]
