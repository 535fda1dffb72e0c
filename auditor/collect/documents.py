"""Targets that are no pages: saved windows and engine logs."""

from __future__ import annotations

from auditor.collect.inputs import Inputs
from auditor.measures.vocabulary import Vocabulary
from auditor.model import EvidenceError, UsageError, Window
from auditor.sources.files import STDIN, as_saved_document


def window_of_document(inputs: Inputs, body: bytes, vocabulary: Vocabulary) -> Window | None:
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
    if inputs.seconds is not None:
        raise UsageError("--seconds is the distance of two saved pages; a saved window has its own length")
    return window


def window_of_logs(inputs: Inputs, vocabulary: Vocabulary) -> Window | None:
    """The window of running logs, when the targets are such; asked first, because a log may be of any size."""
    from auditor.log_window import find_logs, log_window

    found = find_logs(inputs.targets)
    if found is None:
        return None
    if inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; a log has its own length")
    known = frozenset(e.name for e in vocabulary.engines)
    return log_window(found, known_engines=known, settings=inputs.settings, seconds=inputs.seconds)
