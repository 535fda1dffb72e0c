"""How a flag is declared, found and explained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from auditor.measures.subject import Missing, Subject

FlagFunction = Callable[[Subject], str | None]
FLAGS: dict[str, FlagFunction] = {}

ELSEWHERE: Mapping[str, str] = {
    "not_one_process": "Start time alternates, or counters fall and rise again between scrapes: the address is a "
    "balancer. The target is refused; audit the replicas behind it.",
    "no_engine_metrics": "The page answered without one series of any known engine: statistics switched off, wrong "
    "port or process, or a renamed metric set.",
    "blind_histogram": "All mass of a gated percentile lies in one bucket: it cannot see a change. Gate the mean.",
}


def flag(function: FlagFunction) -> FlagFunction:
    FLAGS[function.__name__] = function
    return function


def flag_text(name: str) -> str:
    """What ``auditor explain`` says of a flag."""
    return ELSEWHERE.get(name) or inspect.cleandoc(FLAGS[name].__doc__ or "")


def find_flags(s: Subject) -> dict[str, str]:
    """All flags of a subject with the sentence behind each, in a fixed order."""
    out: dict[str, str] = {}
    for name, function in FLAGS.items():
        try:
            sentence = function(s)
        except (Missing, ArithmeticError):
            continue
        if sentence is not None:
            out[name] = sentence
    return out
