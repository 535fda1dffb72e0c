"""Two scrapes of each live server, the time between them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from auditor.collect.addresses import expand_addresses
from auditor.collect.inputs import Inputs, Progress
from auditor.collect.window import make_window, shown_name, twin_warnings
from auditor.http import Client
from auditor.measures.targets import build_target, failed_target
from auditor.measures.vocabulary import Vocabulary
from auditor.model import TargetWindow, Window
from auditor.sources.alike import PageReader
from auditor.sources.scrape import Scrape, metrics_url


def live_window(inputs: Inputs, targets: Sequence[str], vocabulary: Vocabulary, say: Progress) -> Window:
    """Two scrapes of each target, the time between them."""

    assert inputs.window_seconds is not None
    urls = expand_addresses([metrics_url(t) for t in targets], expand=inputs.expand_dns)
    reader = PageReader(vocabulary.wanted)
    with Client(inputs.transport) as client:
        fetched = Scrape(reader, urls).fetch(client)
        due = time.monotonic() + inputs.window_seconds
        first = fetched.parse()
        if all(f.page is None for f in first):
            return make_window(
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
    return make_window(
        "scrapes",
        out,
        inputs,
        vocabulary,
        seconds=statistics.median(spans) if spans else None,
        start=min(starts, default=None),
        end=max(ends, default=None),
        warnings=twin_warnings(
            (b.address, b.page)
            for target, b in zip(out, second, strict=True)
            if b.page is not None and target.state == "measured"
        ),
        source=f"{shown_name(out[0].address)} over {inputs.window_seconds:g} s"
        if len(out) == 1
        else f"{len(out)} targets",
    )


def _wait_until(due: float, say: Progress) -> None:
    """Sleep until the second scrape, with a line of progress now and then."""
    while (left := due - time.monotonic()) > 0:
        time.sleep(min(left, 10.0))
        left = due - time.monotonic()
        if left > 1:
            say(f"{left:.0f} s left")
