"""The exit code a run has earned: one place for precedence, and for what a closed pipe ends with."""

from __future__ import annotations

from collections.abc import Iterable

PRECEDENCE = (2, 4, 1, 3, 0)
"""Caller's mistake, our fault, broken, undecided, fine."""

_earned = 0


def worst(codes: Iterable[int]) -> int:
    """The code that wins: 2 > 4 > 1 > 3 > 0."""
    found = set(codes)
    return next((code for code in PRECEDENCE if code in found), 0)


def earn(code: int) -> int:
    """Remember the code before anything is written; returns it."""
    global _earned
    _earned = code
    return code


def earned() -> int:
    return _earned
