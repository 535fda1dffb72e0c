"""Pages of one target -> a target of the window: which engine, its series side by side, or why it is refused."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.measures.lives import CREATED, find_lives
from auditor.measures.vocabulary import PROCESS_START, Engine, Form, Vocabulary
from auditor.model import Labels, Page, Series, TargetWindow, UsageError

LIKELY_CAUSES = "statistics switched off, a wrong port or process, or a renamed metric set"


def failed_target(address: str, reason: str, *, times: tuple[float | None, ...] = ()) -> TargetWindow:
    return TargetWindow(address=address, state="failed", reason=reason, times=times)


def build_target(
    address: str,
    pages: Sequence[tuple[float | None, Page]],
    vocabulary: Vocabulary,
    *,
    saved: bool,
) -> TargetWindow:
    """Put the pages of one target, in time order, side by side.

    Args:
        saved: the pages are files, so a wrong order is the caller's mistake and not the server's.

    Raises:
        UsageError: saved pages in the wrong order, of different engines or of different models.
    """
    times = tuple(at for at, _ in pages)
    samples_read = sum(page.samples_read for _, page in pages)
    recognised = [vocabulary.recognise(page.names_read) for _, page in pages]
    last_page = pages[-1][1]
    if recognised[-1] is None:
        reason = _nothing_known(last_page, vocabulary)
        return TargetWindow(address, "not_an_engine", reason=reason, times=times, samples_read=samples_read)
    engine, form = recognised[-1]
    for found in recognised[:-1]:
        if found is None or found[0] is not engine or found[1] != form:
            other = "no known engine" if found is None else f"{found[0].title} ({found[1].prefix})"
            return _mismatch(
                address, f"one page is of {other}, the last one of {engine.title} ({form.prefix})", times, saved=saved
            )
    if _is_router_copy(last_page, engine, form):
        reason = (
            f"{form.prefix} gauges without counters, histograms and engine label: a router's copy; scrape the workers"
        )
        return TargetWindow(
            address, "not_an_engine", engine.name, reason=reason, times=times, samples_read=samples_read
        )
    models = [_models(page, engine) for _, page in pages]
    if len(pages) > 1 and models[0] and models[-1] and not models[0] & models[-1]:
        return _mismatch(
            address,
            f"the first page serves {', '.join(sorted(models[0]))}, the last one {', '.join(sorted(models[-1]))}",
            times,
            saved=saved,
        )
    target = TargetWindow(
        address=address,
        state="measured",
        engine=engine.name,
        times=times,
        form=form.prefix,
        helps={name: text for _, page in pages for name, text in page.helps.items() if "cache" in name},
        kinds={n: k for _, page in pages for n, k in page.kinds.items() if n.startswith(form.prefix)},
        series=_columns([page for _, page in pages], form.prefix),
        samples_read=samples_read,
    )
    return _check_lives(target, engine, saved=saved)


def _check_lives(target: TargetWindow, engine: Engine, *, saved: bool) -> TargetWindow:
    if len(target.times) < 2:
        return target
    lives = find_lives(target, engine)
    if lives.alternates:
        reason = f"not one process: {lives.evidence}; the address is a balancer, audit the replicas behind it"
    elif lives.fell_without_restart:
        if saved:
            raise UsageError(
                f"{target.address}: {lives.evidence or 'counters fall while the process is the same'} from one page "
                "to the next: are the pages in the wrong order?"
            )
        why = lives.evidence or "counters fall while the start time stands still"
        reason = f"not one process: {why}; the address is a balancer, audit the replicas behind it"
    else:
        return target
    return TargetWindow(
        target.address, "not_one_process", engine.name, reason=reason, times=target.times,
        samples_read=target.samples_read,
    )  # fmt: skip


def _mismatch(address: str, what: str, times: tuple[float | None, ...], *, saved: bool) -> TargetWindow:
    if saved:
        raise UsageError(f"{address}: {what}: these are not two pages of one server")
    return failed_target(address, f"{what}: it changed during the window", times=times)


def _columns(pages: Sequence[Page], prefix: str) -> tuple[Series, ...]:
    """Every series of the engine, with its value on each page."""
    if len(pages) == 1:
        return tuple(
            Series(s.name, s.labels, (s.value,))
            for s in pages[0].samples
            if s.name.startswith(prefix) or s.name == PROCESS_START
        )
    columns: dict[tuple[str, Labels], list[float | None]] = {}
    for i, page in enumerate(pages):
        for sample in page.samples:
            if not (sample.name.startswith(prefix) or sample.name == PROCESS_START):
                continue
            key = (sample.name, sample.labels)
            column = columns.get(key)
            if column is None:
                column = columns[key] = [None] * len(pages)
            column[i] = sample.value
    return tuple(Series(name, labels, tuple(values)) for (name, labels), values in columns.items())


def _models(page: Page, engine: Engine) -> frozenset[str]:
    names = set(engine.model_labels)
    return frozenset(value for s in page.samples for key, value in s.labels if key in names and value)


def _is_router_copy(page: Page, engine: Engine, form: Form) -> bool:
    if engine.router_sign is None:
        return False
    ours = [s for s in page.samples if s.name.startswith(form.prefix)]
    ranks = set(engine.rank_labels)
    for s in ours:
        base, _, suffix = s.name.rpartition("_")
        if page.kinds.get(s.name) in ("counter", "histogram") or suffix in (
            "total",
            "bucket",
            "count",
            "sum",
        ):
            return False
        if base and suffix == CREATED[1:]:
            return False
        if any(key in ranks for key, _ in s.labels):
            return False
    return bool(ours)


def _nothing_known(page: Page, vocabulary: Vocabulary) -> str:
    refusal = vocabulary.refusal(page.names_read)
    if refusal is not None:
        return f"{refusal.title}: {refusal.reason}"
    prefixes = ", ".join(vocabulary.prefixes)
    return (
        f"answered with {page.samples_read} series, not one of a known engine (looked for {prefixes}). "
        f"Likely: {LIKELY_CAUSES}"
    )


def same_server(pages: Sequence[Page]) -> bool:
    """Pages share a creation time, or the start time where there is none: surely one server.

    Start times have a hundredth of a second: two replicas that a roll-out started together can share one.
    """
    created = [{(s.name, s.labels, s.value) for s in page.samples if s.name.endswith(CREATED)} for page in pages]
    if all(created):
        return bool(set.intersection(*created))
    starts = [{s.value for s in page.samples if s.name == PROCESS_START} for page in pages]
    return all(starts) and bool(set.intersection(*starts))
