"""What kind of window it is, and what happened to its engines in it."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Subject
from auditor.model import Counter


@flag
def lifetime_only(s: Subject) -> str | None:
    """One scrape: shares and counts are since the engine's start; preemption, liveness and pool stay undecided."""
    return "one scrape: everything is since the engine's start" if s.window.kind == "lifetime" else None


@flag
def no_traffic(s: Subject) -> str | None:
    """No live or finished counter moved in the window."""
    if s.moved:
        return None
    if s.of_log:
        return "no token moved in any line of the log"
    lost = {name: flaw for p in s.parts for name, flaw in p.flaws.items() if _counts_work(s, name)}
    if lost:
        more = f", and {len(lost) - 1} more like it" if len(lost) > 1 else ""
        return f"no counter that can be read moved in the window: {next(iter(lost.values()))}{more}"
    return "no counter moved in the window"


def _counts_work(s: Subject, name: str) -> bool:
    declaration = s.engine.quantities.get(name)
    if declaration is None or declaration.population == "state":
        return False
    return declaration.kind in ("counter", "histogram")


@flag
def too_few_requests(s: Subject) -> str | None:
    """Fewer finished requests than --min-requests."""
    done, _ = finished_count(s)
    if s.moved and done < s.options.min_requests:
        return f"{done:g} finished requests, fewer than {s.options.min_requests}"
    return None


@flag
def counter_reset(s: Subject) -> str | None:
    """The engine restarted inside the window: readings are partial."""
    return s.partial_reason if s.restarted else None


@flag
def cold_start(s: Subject) -> str | None:
    """The process started inside the window, or its counters start at 0: warm-up is part of the figures."""
    if s.window.kind == "lifetime":
        return None
    if s.restarted:
        return "the engine started inside the window"
    started = [p.started_at for p in s.parts if p.started_at is not None]
    if s.window.start is not None and any(t >= s.window.start for t in started):
        return "the engine started inside the window"
    totals = [q.at_start for p in s.parts for q in p.quantities.values() if isinstance(q, Counter)]
    if s.moved and totals and all(t == 0 for t in totals):
        return "all counters start at 0"
    return None


@flag
def old_and_new_names(s: Subject) -> str | None:
    """Two generations of a name side by side: harmless while they agree; counted once."""
    names = sorted({name for p in s.parts for name in p.doubles})
    if not names:
        return None
    conflict = next((text for p in s.parts for text in p.doubles.values() if text), "")
    return f"{', '.join(names)} under two names, counted once" + (f"; they disagree: {conflict}" if conflict else "")
