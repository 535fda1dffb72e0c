"""Inputs -> Window: everything that may touch the network or a file, once, before anything is judged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.http import Transport
from auditor.measures.lives import find_lives
from auditor.measures.targets import SeenServers, build_target, failed_target
from auditor.measures.vocabulary import Vocabulary, load_vocabulary
from auditor.model import EvidenceError, Page, Setting, TargetWindow, UsageError, Window
from auditor.sources.alike import PageReader
from auditor.sources.files import STDIN, as_saved_document, read_file

if TYPE_CHECKING:
    from auditor.ranges import RangeRequest

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Inputs:
    """What a command line says about where evidence comes from."""

    targets: tuple[str, ...] = ()
    before: str | None = None
    series: tuple[str, ...] = ()
    every_seconds: float | None = None
    times: tuple[float, ...] = ()
    window_seconds: float | None = None
    seconds: float | None = None
    prometheus: str | None = None
    end: float | None = None
    match: str | None = None
    exact: bool = False
    expand_dns: bool = False
    transport: Transport = field(default_factory=Transport)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Options of single sources that nothing else reads."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a boot log told beside settings."""


def collect(inputs: Inputs, *, say: Progress = lambda text: None, vocabulary: Vocabulary | None = None) -> Window:
    """Gather a window from whatever inputs were given.

    Raises:
        UsageError: inputs that do not go together, a file that is not there, pages in the wrong order.
        EvidenceError: a metrics server that could not be asked.
    """
    window = _gather(inputs, say, vocabulary or load_vocabulary())
    # A saved window brings its own settings; what was said on this command line wins.
    return replace(window, settings={**window.settings, **inputs.settings}, facts={**window.facts, **inputs.facts})


def _gather(inputs: Inputs, say: Progress, vocabulary: Vocabulary) -> Window:
    _check(inputs)
    if inputs.prometheus is not None:
        return _range(inputs, vocabulary, say)
    if inputs.before is not None:
        return _pair(inputs, vocabulary)
    if inputs.series:
        return _series(inputs, vocabulary)
    log = _log_window(inputs, vocabulary)
    if log is not None:
        return log
    body = None
    if len(inputs.targets) == 1 and not is_address(inputs.targets[0]):
        try:
            body = read_file(inputs.targets[0])
        except EvidenceError as error:
            name = "standard input" if inputs.targets[0] == STDIN else inputs.targets[0]
            return _window("lifetime", [failed_target(name, str(error))], inputs, vocabulary, source=_name(name))
        saved = _saved_window(inputs, body, vocabulary)
        if saved is not None:
            return saved
    live = [t for t in inputs.targets if is_address(t)]
    if inputs.window_seconds is not None:
        if len(live) != len(inputs.targets):
            raise UsageError("--window takes two scrapes of live servers; for saved pages use --before or --series")
        return _live(inputs, live, vocabulary, say)
    return _once(inputs, vocabulary, body)


def _check(inputs: Inputs) -> None:
    ways = [inputs.prometheus is not None, inputs.before is not None, bool(inputs.series)]
    if sum(ways) > 1:
        raise UsageError("--prometheus, --before and --series are three different inputs; give one of them")
    if inputs.prometheus is None and not inputs.targets and not inputs.series:
        raise UsageError("no target given: a URL, a file, or - for standard input")
    if inputs.before is not None and len(inputs.targets) != 1:
        raise UsageError("--before goes with exactly one later page of the same server")
    if (inputs.every_seconds or inputs.times) and not inputs.series:
        raise UsageError("--every and --times go with --series")
    if (*inputs.targets, *inputs.series, inputs.before).count(STDIN) > 1:
        raise UsageError("- (standard input) can be read once only")
    if inputs.before is not None and (is_address(inputs.before) or is_address(inputs.targets[0])):
        raise UsageError("--before takes two saved pages; for a live server use --window")
    if inputs.before is not None and inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; the distance of two saved pages is --seconds N")


def collect_range_pieces(inputs: Inputs, count: int, *, say: Progress = lambda text: None) -> Iterator[Window]:
    """A past window of a metrics server as so many neighbouring ones, each asked for by itself.

    Raises:
        UsageError, EvidenceError: as ``collect``.
    """
    from auditor.ranges import collect_pieces

    _check(inputs)
    windows = collect_pieces(
        _range_request(inputs), count, load_vocabulary(), transport=inputs.transport, settings=inputs.settings, say=say
    )
    for window in windows:
        yield replace(window, facts=inputs.facts)


def _range(inputs: Inputs, vocabulary: Vocabulary, say: Progress) -> Window:
    """A past window, added up by a metrics server."""
    from auditor.ranges import collect_range

    request = _range_request(inputs)
    return collect_range(request, vocabulary, transport=inputs.transport, settings=inputs.settings, say=say)


def _range_request(inputs: Inputs) -> RangeRequest:
    from auditor.ranges import RangeRequest

    assert inputs.prometheus is not None
    if inputs.targets:
        raise UsageError("--prometheus finds its targets itself; choose among them with --match '{job=\"vllm\"}'")
    if inputs.window_seconds is None:
        raise UsageError("--prometheus needs --window: how far back, for example --window 24h")
    return RangeRequest(
        url=inputs.prometheus,
        window_seconds=inputs.window_seconds,
        end=inputs.end,
        match=inputs.match,
        exact=inputs.exact,
        by=str(inputs.extra.get("by", "model")),
    )


def is_address(target: str) -> bool:
    """Whether a target is to be asked over the network, and is no file."""
    if target.startswith(("http://", "https://")):
        return True
    # os.path, since Path.exists raises on names that are too long to be one.
    if target == STDIN or os.path.exists(target):
        return False
    from auditor.sources.scrape import looks_like_address

    return looks_like_address(target)


def _read_page(path: str, reader: PageReader, body: bytes | None = None) -> Page:
    return reader.read(read_file(path) if body is None else body)


# --------------------------------------------------------------------------- saved pages


def _pair(inputs: Inputs, vocabulary: Vocabulary) -> Window:
    assert inputs.before is not None
    before, after = inputs.before, inputs.targets[0]
    reader = PageReader(vocabulary.wanted)
    pages: list[tuple[float | None, Page]] = []
    failure = None
    for path in (before, after):
        try:
            pages.append((None, _read_page(path, reader)))
        except EvidenceError as error:
            failure = failure or f"{path}: {error}"
    if failure is not None:
        target = failed_target(after, failure)
    else:
        target = build_target(after, pages, vocabulary, saved=True)
    return _window(
        "scrapes",
        [target],
        inputs,
        vocabulary,
        seconds=inputs.seconds,
        source=f"{_name(before)} -> {_name(after)}",
    )


def _series(inputs: Inputs, vocabulary: Vocabulary) -> Window:
    paths = (*inputs.series, *inputs.targets)
    if len(paths) < 2:
        raise UsageError("--series needs at least two pages of one server, in time order")
    if inputs.times and len(inputs.times) != len(paths):
        raise UsageError(f"--times has {len(inputs.times)} times for {len(paths)} pages")
    if inputs.times:
        times: list[float | None] = list(inputs.times)
    elif inputs.every_seconds:
        # No page says when it was taken: the distance is known, the day is not.
        times = [i * inputs.every_seconds for i in range(len(paths))]
    else:
        times = [None] * len(paths)
    pages: list[tuple[float | None, Page]] = []
    reader = PageReader(vocabulary.wanted)
    warnings = []
    for at, path in zip(times, paths, strict=True):
        try:
            pages.append((at, _read_page(path, reader)))
        except EvidenceError as error:
            warnings.append(f"{_name(path)}: {error}")
    address = _name(paths[0])
    if len(pages) < 2:
        target = failed_target(address, warnings[0] if warnings else "fewer than two pages could be read")
    else:
        target = build_target(address, pages, vocabulary, saved=True)
    known = [at for at, _ in pages if at is not None]
    seconds = known[-1] - known[0] if len(known) > 1 else inputs.seconds
    return _window(
        "series",
        [target],
        inputs,
        vocabulary,
        seconds=seconds,
        start=known[0] if inputs.times and known else None,
        end=known[-1] if inputs.times and known else None,
        coverage=len(pages) / len(paths),
        warnings=warnings,
        source=f"{len(paths)} pages, {_name(paths[0])} .. {_name(paths[-1])}",
    )


def _once(inputs: Inputs, vocabulary: Vocabulary, body: bytes | None = None) -> Window:
    """One page of each target: the servers' lives so far. ``body`` is what a single file holds."""
    live = [t for t in inputs.targets if is_address(t)]
    fetched: dict[str, TargetWindow] = {}
    moment: float | None = None
    if live:
        from auditor.http import Client
        from auditor.sources.scrape import metrics_url, scrape_all

        urls = expand_addresses([metrics_url(t) for t in live], expand=inputs.expand_dns)
        with Client(inputs.transport) as client:
            for got in scrape_all(client, urls, vocabulary.wanted):
                moment = got.at if got.at is not None else moment
                fetched[got.address] = (
                    failed_target(got.address, got.failure or "no page")
                    if got.page is None
                    else build_target(got.address, [(got.at, got.page)], vocabulary, saved=False)
                )
    targets = list(fetched.values())
    seen, reader = SeenServers(), PageReader(vocabulary.wanted)
    for path in (t for t in inputs.targets if t not in live):
        name = "standard input" if path == STDIN else path
        try:
            page = _read_page(path, reader, body)
        except EvidenceError as error:
            targets.append(failed_target(name, str(error)))
            continue
        if not seen.is_new(page):
            raise UsageError(f"{path}: two pages of one server (same start time); did you mean --before?")
        targets.append(build_target(name, [(None, page)], vocabulary, saved=True))
    names = [_name(t.address) for t in targets]
    source = names[0] if len(names) == 1 else f"{len(names)} targets"
    return _window("lifetime", targets, inputs, vocabulary, seconds=inputs.seconds, end=moment, source=source)


# --------------------------------------------------------------------------- live servers


def _live(inputs: Inputs, targets: Sequence[str], vocabulary: Vocabulary, say: Progress) -> Window:
    """Two scrapes of each target, the time between them."""
    import statistics

    from auditor.http import Client
    from auditor.sources.scrape import Scrape, metrics_url

    assert inputs.window_seconds is not None
    urls = expand_addresses([metrics_url(t) for t in targets], expand=inputs.expand_dns)
    reader = PageReader(vocabulary.wanted)
    with Client(inputs.transport) as client:
        fetched = Scrape(reader, urls).fetch(client)
        due = time.monotonic() + inputs.window_seconds
        first = fetched.parse()
        if all(f.page is None for f in first):
            return _window(
                "scrapes",
                [failed_target(f.address, f.failure or "no page") for f in first],
                inputs,
                vocabulary,
            )
        say(f"first scrape done; the second one in {inputs.window_seconds:g} s")
        _wait_until(due, say)
        second = Scrape(reader, urls).fetch(client).parse()
    out: list[TargetWindow] = []
    spans, starts, ends = [], [], []
    for a, b in zip(first, second, strict=True):
        if a.page is None or b.page is None:
            which = a.failure if a.page is None else f"answered at the start and not at the end: {b.failure}"
            out.append(failed_target(a.address, which or "no page"))
            continue
        out.append(build_target(a.address, [(a.at, a.page), (b.at, b.page)], vocabulary, saved=False))
        if a.at is not None and b.at is not None:
            spans.append(b.at - a.at)
            starts.append(a.at)
            ends.append(b.at)
    return _window(
        "scrapes",
        out,
        inputs,
        vocabulary,
        seconds=statistics.median(spans) if spans else None,
        start=min(starts, default=None),
        end=max(ends, default=None),
        source=f"{_name(out[0].address)} over {inputs.window_seconds:g} s" if len(out) == 1 else f"{len(out)} targets",
    )


def _wait_until(due: float, say: Progress) -> None:
    """Sleep until the second scrape, with a line of progress now and then."""
    while (left := due - time.monotonic()) > 0:
        time.sleep(min(left, 10.0))
        left = due - time.monotonic()
        if left > 1:
            say(f"{left:.0f} s left")


def expand_addresses(urls: list[str], *, expand: bool) -> list[str]:
    """Replace names that resolve to several addresses by these addresses, where asked to.

    A name that does not resolve is kept: asking it says why, and only that target fails.
    """
    urls = list(dict.fromkeys(urls))
    if not expand:
        return urls
    from urllib.parse import urlsplit, urlunsplit

    from auditor.http import resolve_addresses

    out: list[str] = []
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            addresses = resolve_addresses(parts.hostname or "", port)
        except EvidenceError:
            out.append(url)
            continue
        for address in addresses:
            host = f"[{address}]" if ":" in address else address
            user = parts.netloc.rpartition("@")[0]
            out.append(urlunsplit(parts._replace(netloc=f"{user}@{host}:{port}" if user else f"{host}:{port}")))
    return out


# --------------------------------------------------------------------------- saved windows and logs


def _saved_window(inputs: Inputs, body: bytes, vocabulary: Vocabulary) -> Window | None:
    """The window in the body of the only target, when it is one."""
    document = as_saved_document(body)
    if document is None:
        return None
    name = "standard input" if inputs.targets[0] == STDIN else inputs.targets[0]
    if document.get("kind") != "window":
        kind = document.get("kind")
        raise UsageError(f"{name}: is a saved {kind}, not a window; auditor render shows a report again")
    from auditor.saved import window_from_json

    window = window_from_json(document, name=name)
    known = {e.name for e in vocabulary.engines}
    strange = next((t.engine for t in window.targets if t.state == "measured" and t.engine not in known), None)
    if strange is not None:
        raise EvidenceError(f"{name}: holds pages of {strange!r}, which this release does not know")
    if inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; a saved window has its own length")
    return window


def _log_window(inputs: Inputs, vocabulary: Vocabulary) -> Window | None:
    """The window of running logs, when the targets are such; asked first, because a log may be of any size."""
    from auditor.log_window import find_logs, log_window

    found = find_logs(inputs.targets)
    if found is None:
        return None
    if inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; a log has its own length")
    known = frozenset(e.name for e in vocabulary.engines)
    return log_window(found, known_engines=known, settings=inputs.settings, seconds=inputs.seconds)


# --------------------------------------------------------------------------- the window


def _name(address: str) -> str:
    return address if "://" in address or address == STDIN else Path(address).name


def _window(
    kind: Any,
    targets: Sequence[TargetWindow],
    inputs: Inputs,
    vocabulary: Vocabulary,
    *,
    seconds: float | None = None,
    start: float | None = None,
    end: float | None = None,
    coverage: float = 1.0,
    warnings: Sequence[str] = (),
    source: str = "",
) -> Window:
    answered = sum(t.state == "measured" for t in targets) / len(targets) if targets else 0.0
    restarts = sum(
        find_lives(t, vocabulary.engine(t.engine)).count
        for t in targets
        if t.state == "measured" and t.engine and len(t.times) > 1
    )
    if start is None and end is not None and seconds is not None:
        start = end - seconds
    return Window(
        kind=kind,
        start=start,
        end=end,
        seconds=seconds,
        targets=tuple(targets),
        coverage=min(coverage, answered) if targets else 0.0,
        restarts=restarts,
        warnings=(*warnings, *_disturbed(targets, vocabulary)),
        settings=inputs.settings,
        source=source,
    )


def _disturbed(targets: Sequence[TargetWindow], vocabulary: Vocabulary) -> tuple[str, ...]:
    """What our own scrapes did to live servers whose pages change by being read, one sentence an engine."""
    scraped = {t.engine: None for t in targets if t.state == "measured" and t.engine and "://" in t.address}
    traits = [vocabulary.engine(name).traits for name in scraped if name]
    return tuple(str(t["scrape_disturbs"]) for t in traits if "scrape_disturbs" in t)
