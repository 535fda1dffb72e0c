"""All ratios, shares and quantiles, once, by theme. Importing the package declares them."""

from __future__ import annotations

from auditor.measures.readings import (
    distributions,
    passes,
    pool,
    rates,
    requests,
    roofline,
    speculation,
    steps,
    stretch,
    time,
    tokens,
)
from auditor.measures.readings.registry import READINGS, Declared, Found, compute_reading

ORDER = (
    "time", "distributions", "tokens", "requests", "rates", "passes", "pool", "speculation", "steps", "stretch",
    "roofline",
)  # fmt: skip
"""Themes as they stand in a report, whichever module happened to be imported first."""

for _name in sorted(READINGS, key=lambda name: ORDER.index(READINGS[name].theme)):
    READINGS[_name] = READINGS.pop(_name)

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
    "roofline",
    "speculation",
    "steps",
    "stretch",
    "time",
    "tokens",
]
