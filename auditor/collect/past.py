"""A past window, added up by a metrics server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from auditor.collect.inputs import Inputs, Progress, check_inputs
from auditor.measures.vocabulary import Vocabulary, load_vocabulary
from auditor.model import UsageError, Window
from auditor.ranges import RangeRequest, collect_pieces, collect_range


def past_window(inputs: Inputs, vocabulary: Vocabulary, say: Progress) -> Window:
    """The whole of it.

    Raises:
        UsageError: targets of one's own, no length, a ``--match`` that is not one selector.
        EvidenceError: the server could not be asked, or holds nothing of a known engine.
    """
    request = _request(inputs)
    return collect_range(request, vocabulary, transport=inputs.transport, settings=inputs.settings, say=say)


def past_pieces(inputs: Inputs, count: int, *, say: Progress = lambda text: None) -> Iterator[Window]:
    """The same time as so many neighbouring ones, each asked for by itself.

    Raises:
        UsageError, EvidenceError: as ``past_window``.
    """
    check_inputs(inputs)
    windows = collect_pieces(
        _request(inputs), count, load_vocabulary(), transport=inputs.transport, settings=inputs.settings, say=say
    )
    for window in windows:
        yield replace(window, facts=inputs.facts)


def _request(inputs: Inputs) -> RangeRequest:
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
