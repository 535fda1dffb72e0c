"""Words that reports print and no declaration explains: of comparisons, nights, levers, targets and windows.

A word with several meanings has them all here, the commonest first. Numbers are those of the rules, which a test holds
against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Meaning = tuple[str, str]
"""(what kind of word it is, what it says)."""

ROW = "a row of a comparison"
WHOLE = "the verdict of a comparison"
NOISE = "where the interval of a change comes from"
NIGHT = "a reading beside the nights before"
LEVER = "a lever"
TARGET = "the state of a target"
WINDOW = "a kind of window"
MARK = "a mark on a screen"
WEIGHT = "the weight of a broken premise"

_BAND = "The value lies outside the band of the comparable nights"
_LEVER_RANGE = "--worth (1.05 unless you say otherwise)"

MEANINGS: Mapping[str, Sequence[Meaning]] = {
    "better": (
        (
            ROW,
            "The whole 95 % interval of the change leaves out 0, on the side that is good for this reading.",
        ),
        (
            WHOLE,
            "At least one headline reading is better beyond its 99 % interval, and no headline and no tail is "
            "worse at 95 %.",
        ),
        (
            NIGHT,
            f"{_BAND}, on the good side. A screen shows +.",
        ),
    ),
    "worse": (
        (
            ROW,
            "The whole 95 % interval of the change leaves out 0, on the side that is bad for this reading.",
        ),
        (
            WHOLE,
            "At least one headline reading is worse beyond its 99 % interval, and no headline and no tail is "
            "better at 95 %. An arm that did not boot is worse too.",
        ),
        (
            NIGHT,
            f"{_BAND}, on the bad side: a regression. A screen shows NO.",
        ),
    ),
    "changed": (
        (
            ROW,
            "The whole 95 % interval of the change leaves out 0, and neither side is known to be good.",
        ),
        (
            NIGHT,
            f"{_BAND}, and neither side is known to be good. A screen shows ~.",
        ),
    ),
    "same": (
        (
            ROW,
            "The whole 95 % interval of the change lies within +-5 %; where the noise is unknown, it moved by "
            "less than 2 %.",
        ),
        (
            WHOLE,
            "Every headline reading that could be judged is the same.",
        ),
        (
            NIGHT,
            "The value lies inside the band of the comparable nights, or moved by less than 5 % of itself (a "
            "share by less than 0.002). A screen shows YES.",
        ),
    ),
    "blind": (
        (
            ROW,
            "A percentile whose bucket is the same in both arms: no change within a bucket can be seen. Compare "
            "the means instead.",
        ),
    ),
    "undecided": (
        (
            ROW,
            "The change cannot be told from noise and is not small either, or its noise is unknown. More "
            "repeats decide: auditor compare --plan 10% says how many.",
        ),
        (
            WHOLE,
            "No headline reading is surely better or worse, and not all are the same.",
        ),
        (
            NIGHT,
            "Tonight cannot be compared: no value, or fewer comparable nights than --min-nights (7). The reason "
            "stands beside it.",
        ),
        (
            LEVER,
            f"The range of its ceiling has {_LEVER_RANGE} inside it, or is not known. A screen shows ?.",
        ),
    ),
    "trade": (
        (
            WHOLE,
            "Some headline readings are better and others, or a tail, are worse: which counts for more is not "
            "for a program to say.",
        ),
    ),
    "not_comparable": (
        (
            WHOLE,
            "No row means anything, since more than the thing under test differs: another engine, model or "
            "workload, ten times more requests, no traffic, or the same window twice. The lines with !! say "
            "what.",
        ),
    ),
    "repeats": (
        (
            NOISE,
            "From how far repeated windows of one arm lie apart. It holds what changes from run to run.",
        ),
    ),
    "counts": (
        (
            NOISE,
            "From both windows' own 95 % intervals, widened by 1.3 since requests share steps and queues. It "
            "does not hold what changes from one boot to the next: repeat the windows for that.",
        ),
    ),
    "unknown": (
        (
            NOISE,
            "From nowhere: nothing was repeated and the reading has no interval. Repeat the windows (auditor "
            "collect --split, or more runs) before calling it a change.",
        ),
    ),
    "regression": (
        (
            NIGHT,
            "A reading with a good direction that is worse tonight: outside the band of the nights before, on "
            "the bad side. auditor nightly --fail-on regression ends with 1 then.",
        ),
    ),
    "baseline": (
        (
            NIGHT,
            "The median of the latest comparable nights, at most 28. Comparable: the same kind of window, its "
            "length and its traffic within a factor of 1.5.",
        ),
        (
            "a part of a comparison",
            "The first arm, with which the others are compared.",
        ),
    ),
    "band": (
        (
            NIGHT,
            "Where a quiet night lies: the median of the comparable nights and their spread, so wide that one "
            "normal night in 500 is outside, and never narrower than the interval of tonight's own number.",
        ),
    ),
    "not_enough_history": (
        (
            NIGHT,
            "Fewer comparable nights than --min-nights (7), so there is no band. It is an answer of its own, "
            "and no alarm.",
        ),
    ),
    "worth_a_test": (
        (
            LEVER,
            f"Even the low end of its ceiling is at least {_LEVER_RANGE}. A screen shows TRY.",
        ),
    ),
    "not_worth_a_test": (
        (
            LEVER,
            f"Not even the high end of its ceiling reaches {_LEVER_RANGE}. A screen shows no.",
        ),
    ),
    "not_applicable": (
        (
            LEVER,
            "It cannot be moved here. A screen shows -.",
        ),
    ),
    "TRY": (
        (
            MARK,
            "Beside a lever: worth_a_test. The figures are the most that it can gain in request service time, "
            "never a promise.",
        ),
    ),
    "TRY FIRST": (
        (
            MARK,
            "What to do about the premises that are broken, problems before warnings.",
        ),
    ),
    "NOT KNOWN": (
        (
            MARK,
            "What no reading of this page can tell, however long the window is.",
        ),
    ),
    "SETTLE IT": (
        (
            MARK,
            "The command that would decide more than this window did.",
        ),
    ),
    "YES": (
        (
            MARK,
            "Beside a question: the premise holds. Beside a night: it is the same as the nights before.",
        ),
    ),
    "NO": (
        (
            MARK,
            "Beside a question: the premise is broken. Beside a night: worse than the nights before. Beside a "
            "lever, in small letters: not_worth_a_test.",
        ),
    ),
    "waived": (
        (
            "a verdict of the gate",
            "Broken or undecided, and somebody answers for it until the day in waivers: it does not change the "
            "exit code until then.",
        ),
    ),
    "measured": (
        (
            TARGET,
            "Its pages, or what a metrics server stored of it, are in the figures.",
        ),
    ),
    "failed": (
        (
            TARGET,
            "It gave no page that could be read; the reason stands beside it.",
        ),
    ),
    "not_an_engine": (
        (
            TARGET,
            "A page without the series of a known engine: another exporter, a router, or an engine that this "
            "release does not know.",
        ),
    ),
    "lifetime": (
        (
            WINDOW,
            "One page: everything since the engine started. Rates need a second page.",
        ),
    ),
    "scrapes": (
        (
            WINDOW,
            "Two pages of each server and the time between them.",
        ),
    ),
    "series": (
        (
            WINDOW,
            "Pages of one server in time order, or the lines of a running log: it has a course.",
        ),
    ),
    "range": (
        (
            WINDOW,
            "A past window that a metrics server added up; it has a course in steps.",
        ),
    ),
    "problem": (
        (
            WEIGHT,
            "The gravest: a broken engine-liveness, metrics-integrity, length-truncation, preemption or "
            "kv-pool. Requests suffer, or no figure can be trusted.",
        ),
    ),
    "warning": (
        (
            WEIGHT,
            "Every broken premise that is no problem.",
        ),
    ),
}
