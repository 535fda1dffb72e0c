"""Saved pages, and single pages of live servers, as windows."""

from __future__ import annotations

from auditor.collect.addresses import expand_addresses
from auditor.collect.inputs import Inputs, is_address
from auditor.collect.window import make_window, shown_name, twin_warnings
from auditor.measures.targets import SeenServers, build_target, failed_target
from auditor.measures.vocabulary import Vocabulary
from auditor.model import EvidenceError, Page, TargetWindow, UsageError, Window
from auditor.sources.alike import PageReader
from auditor.sources.files import STDIN, read_file


def pair_window(inputs: Inputs, vocabulary: Vocabulary) -> Window:
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
    return make_window(
        "scrapes",
        [target],
        inputs,
        vocabulary,
        seconds=inputs.seconds,
        source=f"{shown_name(before)} -> {shown_name(after)}",
    )


def series_window(inputs: Inputs, vocabulary: Vocabulary) -> Window:
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
            warnings.append(f"{shown_name(path)}: {error}")
    address = shown_name(paths[0])
    if len(pages) < 2:
        target = failed_target(address, warnings[0] if warnings else "fewer than two pages could be read")
    else:
        target = build_target(address, pages, vocabulary, saved=True)
    known = [at for at, _ in pages if at is not None]
    seconds = known[-1] - known[0] if len(known) > 1 else inputs.seconds
    return make_window(
        "series",
        [target],
        inputs,
        vocabulary,
        seconds=seconds,
        start=known[0] if inputs.times and known else None,
        end=known[-1] if inputs.times and known else None,
        coverage=len(pages) / len(paths),
        warnings=warnings,
        source=f"{len(paths)} pages, {shown_name(paths[0])} .. {shown_name(paths[-1])}",
    )


def lifetime_window(inputs: Inputs, vocabulary: Vocabulary, body: bytes | None = None) -> Window:
    """One page of each target: the servers' lives so far. ``body`` is what a single file holds."""
    live = [t for t in inputs.targets if is_address(t)]
    fetched: dict[str, TargetWindow] = {}
    moment: float | None = None
    warnings: list[str] = []
    if live:
        from auditor.http import Client
        from auditor.sources.scrape import metrics_url, scrape_all

        urls = expand_addresses([metrics_url(t) for t in live], expand=inputs.expand_dns)
        with Client(inputs.transport) as client:
            scraped = scrape_all(client, urls, vocabulary.wanted)
            for got in scraped:
                moment = got.at if got.at is not None else moment
                fetched[got.address] = (
                    failed_target(got.address, got.failure or "no page")
                    if got.page is None
                    else build_target(got.address, [(got.at, got.page)], vocabulary, saved=False)
                )
            warnings = twin_warnings(
                (got.address, got.page)
                for got in scraped
                if got.page is not None and fetched[got.address].state == "measured"
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
    names = [shown_name(t.address) for t in targets]
    source = names[0] if len(names) == 1 else f"{len(names)} targets"
    return make_window(
        "lifetime",
        targets,
        inputs,
        vocabulary,
        seconds=inputs.seconds,
        end=moment,
        warnings=warnings,
        source=source,
    )


def _read_page(path: str, reader: PageReader, body: bytes | None = None) -> Page:
    return reader.read(read_file(path) if body is None else body)
