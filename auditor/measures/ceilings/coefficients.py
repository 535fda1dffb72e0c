"""Calibrated margins, on the logarithm of the speed-up; made by ``python -m tests.ceilings.fit``, not by hand.

Each entry is (low end, high end), one coefficient for each of TERMS; None where nothing bounds above.
"""

from __future__ import annotations

Margins = tuple[tuple[float, ...], tuple[float, ...] | None]

TERMS = (
    "1",
    "log(gap/base)",
    "1 - v",
    "log(base/least)",
    "log(most/base)",
    "log(base/lowest)",
    "own gaps",
    "P/W",
    "(1 - v) P/W",
)

AT_99: dict[str, Margins] = {
    "counted": ((0.004, 0, 0.19, 0, 0.909, 0.065, 0.832, 0, 0), (0, 0, 0, 0.268, 0, 0.179, 3.358, 0.261, 1.477)),
    "valley": ((0, 0, 0, 0, 0.829, 0, 0, 0, 0), (0.096, 0, 0, 0.021, 0, 0.627, 0.14, 0.586, 0)),
    "first": ((0.012, 0, 0.475, 0, 0.718, 0, 0, 0, 0), (0.857, 0, 1.01, 0, 0, 0, 0, 1.43, 0)),
    "crowded": ((0.004, 0.026, 0.3, 0, 0.61, 0.061, 5.898, 0, 0), None),
    "covered": ((0.487, 0.021, 0, 0, 0.544, 0, 0, 0.338, 0), None),
    "first crowded": ((0.106, 0, 0.12, 0.016, 1.041, 0, 0, 0, 0), None),
}
AT_95: dict[str, Margins] = {
    "counted": ((0.002, 0, 0.183, 0, 0.775, 0.056, 0.336, 0, 0), (0, 0.147, 0, 0.275, 0, 0.095, 2.357, 0.033, 0.799)),
    "valley": ((0, 0, 0, 0, 0.594, 0, 0, 0, 0), (0.023, 0, 0, 0.028, 0, 0.676, 1.032, 0.335, 0.009)),
    "first": ((0.036, 0, 0.252, 0, 0.72, 0, 0, 0, 0), (0.333, 0, 0, 0.151, 0, 0, 0, 1.125, 0)),
    "crowded": ((0.006, 0, 0.236, 0, 0.655, 0.087, 0, 0, 0), None),
    "covered": ((0, 0.106, 0.329, 0, 0.448, 0, 0, 0, 0.01), None),
    "first crowded": ((0.03, 0.017, 0, 0, 1.03, 0, 0, 0, 0), None),
}

# The baseline is read off moments without prompts in a series of scrapes.
LULLS_99: Margins = ((0.05, 0, 0, 0, 0, 0, 0, 0, 0), (0.05, 0, 0, 0, 0, 0, 0, 0, 0))
LULLS_95: Margins = ((0.05, 0, 0, 0, 0, 0, 0, 0, 0), (0.05, 0, 0, 0, 0, 0, 0, 0, 0))
