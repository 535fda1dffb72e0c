"""Flags: stable words for what a window shows beside its numbers. The condition is the contract.

A flag is one function that returns a sentence when it is set. Those of a whole target (``not_one_process``,
``no_engine_metrics``) are set where they are found; ``blind_histogram`` by the gate. Reports list them in the order in
which these modules declare them.
"""

# isort: off
from auditor.measures.flags import window, cache, steps, roles, requests, load, sources

# isort: on
from auditor.measures.flags.registry import ELSEWHERE, FLAGS, find_flags, flag_text

__all__ = [
    "ELSEWHERE", "FLAGS", "cache", "find_flags", "flag_text", "load", "requests", "roles", "sources", "steps", "window",
]  # fmt: skip
