"""Pages of one target -> a target of the window: which engine, its series side by side, or why it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.measures.lives import CREATED, find_lives, pick_all
from auditor.measures.vocabulary import PROCESS_START, Engine, Form, Vocabulary
from auditor.model import Page, PageShape, SeriesKey, SeriesKeys, SeriesTable, TargetWindow, UsageError

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
    outline = _outline(tuple(page.shape for _, page in pages), vocabulary)
    if outline.mismatch:
        return _mismatch(address, outline.mismatch, times, saved=saved)
    name = outline.engine.name if outline.engine is not None else None
    samples_read = sum(page.samples_read for _, page in pages)
    if outline.refusal or outline.engine is None:
        return TargetWindow(
            address, "not_an_engine", name, reason=outline.refusal, times=times, samples_read=samples_read
        )
    target = TargetWindow(
        address=address,
        state="measured",
        engine=name,
        times=times,
        form=outline.form,
        helps=outline.helps,
        kinds=outline.kinds,
        series=outline.table([page for _, page in pages]),
        samples_read=samples_read,
    )
    return _check_lives(target, outline.engine, saved=saved)


@dataclass(frozen=True)
class _Outline:
    """A target as far as it does not depend on the numbers of its pages: the same for all engines of a kind."""

    engine: Engine | None = None
    form: str = ""
    mismatch: str = ""
    refusal: str | None = None
    helps: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    keys: SeriesKeys = field(default_factory=lambda: SeriesKeys(()))
    columns: tuple[Callable[[tuple[float, ...]], Sequence[float | None]], ...] = ()
    """For each page: its values -> one for each of the keys."""

    def table(self, pages: Sequence[Page]) -> SeriesTable:
        """Every series of the engine, with its value on each page."""
        return SeriesTable(self.keys, [column(page.values) for page, column in zip(pages, self.columns, strict=True)])


def _column(keys: Iterable[SeriesKey], shape: PageShape) -> Callable[[tuple[float, ...]], Sequence[float | None]]:
    """Takes a page's values to a column of the keys' values."""
    where = {key: i for i, key in enumerate(shape.keys)}
    places = [where.get(key) for key in keys]
    everywhere = [i for i in places if i is not None]
    if len(everywhere) == len(places):
        return pick_all(everywhere)
    return lambda values: [None if i is None else values[i] for i in places]


def _outline(shapes: tuple[PageShape, ...], vocabulary: Vocabulary) -> _Outline:
    """Remembered with the last page's shape: a thousand engines of one kind have one outline."""
    last = shapes[-1]
    key = ("outline", vocabulary, shapes[:-1])
    known: _Outline | None = last.memo.get(key)
    if known is None:
        known = last.memo[key] = _make_outline(shapes, vocabulary)
    return known


def _make_outline(shapes: tuple[PageShape, ...], vocabulary: Vocabulary) -> _Outline:
    recognised = [vocabulary.recognise(shape.names_read) for shape in shapes]
    if recognised[-1] is None:
        return _Outline(refusal=_nothing_known(shapes[-1], vocabulary))
    engine, form = recognised[-1]
    for found in recognised[:-1]:
        if found is None or found[0] is not engine or found[1] != form:
            other = "no known engine" if found is None else f"{found[0].title} ({found[1].prefix})"
            return _Outline(engine, mismatch=f"one page is of {other}, the last one of {engine.title} ({form.prefix})")
    if _is_router_copy(shapes[-1], engine, form):
        reason = (
            f"{form.prefix} gauges without counters, histograms and engine label: a router's copy; scrape the workers"
        )
        return _Outline(engine, refusal=reason)
    models = [_models(shape, engine) for shape in shapes]
    if len(shapes) > 1 and models[0] and models[-1] and not models[0] & models[-1]:
        first, last = (", ".join(sorted(m)) for m in (models[0], models[-1]))
        return _Outline(engine, mismatch=f"the first page serves {first}, the last one {last}")
    keys = dict.fromkeys(
        key for shape in shapes for key in shape.keys if key[0].startswith(form.prefix) or key[0] == PROCESS_START
    )
    return _Outline(
        engine=engine,
        form=form.prefix,
        helps={name: text for shape in shapes for name, text in shape.helps.items() if "cache" in name},
        kinds={n: k for shape in shapes for n, k in shape.kinds.items() if n.startswith(form.prefix)},
        keys=SeriesKeys(tuple(keys)),
        columns=tuple(_column(keys, shape) for shape in shapes),
    )


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


def _models(shape: PageShape, engine: Engine) -> frozenset[str]:
    names = set(engine.model_labels)
    return frozenset(value for _, labels in shape.keys for key, value in labels if key in names and value)


def _is_router_copy(shape: PageShape, engine: Engine, form: Form) -> bool:
    if engine.router_sign is None:
        return False
    ours = [key for key in shape.keys if key[0].startswith(form.prefix)]
    ranks = set(engine.rank_labels)
    for name, labels in ours:
        base, _, suffix = name.rpartition("_")
        if shape.kinds.get(name) in ("counter", "histogram") or suffix in (
            "total",
            "bucket",
            "count",
            "sum",
        ):
            return False
        if base and suffix == CREATED[1:]:
            return False
        if any(key in ranks for key, _ in labels):
            return False
    return bool(ours)


def _nothing_known(page: PageShape, vocabulary: Vocabulary) -> str:
    refusal = vocabulary.refusal(page.names_read)
    if refusal is not None:
        return f"{refusal.title}: {refusal.reason}"
    prefixes = ", ".join(vocabulary.prefixes)
    return (
        f"answered with {page.samples_read} series, not one of a known engine (looked for {prefixes}). "
        f"Likely: {LIKELY_CAUSES}"
    )


class SeenServers:
    """Which servers were read already, told in one look-up a page however many there are.

    Pages that share a creation time are surely of one server; where one of them has none, the start time decides.
    Start times have a hundredth of a second: two replicas that a roll-out started together can share one.
    """

    def __init__(self) -> None:
        self._created: set[tuple[SeriesKey, float]] = set()
        self._starts_beside_created: set[float] = set()
        self._starts_alone: set[float] = set()

    def is_new(self, page: Page) -> bool:
        """Whether no page of this page's server was seen; it is remembered."""
        created_at, start_at = _identifying(page.shape)
        created = {(page.shape.keys[i], page.values[i]) for i in created_at}
        starts = {page.values[i] for i in start_at}
        known = not self._created.isdisjoint(created) or not self._starts_alone.isdisjoint(starts)
        if not created:
            known = known or not self._starts_beside_created.isdisjoint(starts)
        self._created |= created
        (self._starts_beside_created if created else self._starts_alone).update(starts)
        return not known


def find_twins(pages: Iterable[tuple[str, Page]]) -> list[tuple[str, str]]:
    """(address, earlier address) of pages that share a creation time, which no two processes do.

    Start times alone do not tell: they have a hundredth of a second, and replicas are started together.
    """
    seen: dict[tuple[SeriesKey, float], str] = {}
    twins = []
    for address, page in pages:
        marks = [(page.shape.keys[i], page.values[i]) for i in _identifying(page.shape)[0]]
        earlier = next((seen[mark] for mark in marks if mark in seen), None)
        if earlier is not None:
            twins.append((address, earlier))
        for mark in marks:
            seen.setdefault(mark, address)
    return twins


def _identifying(shape: PageShape) -> tuple[list[int], list[int]]:
    """Where the creation times and the start time stand among a page's values."""
    if "identifying" not in shape.memo:
        names = [name for name, _ in shape.keys]
        shape.memo["identifying"] = (
            [i for i, name in enumerate(names) if name.endswith(CREATED)],
            [i for i, name in enumerate(names) if name == PROCESS_START],
        )
    found: tuple[list[int], list[int]] = shape.memo["identifying"]
    return found
