"""Which kind of input a command line names, and the window that comes of it."""

from __future__ import annotations

from dataclasses import replace

from auditor.collect.documents import window_of_document, window_of_logs
from auditor.collect.inputs import Inputs, Progress, check_inputs, is_address
from auditor.collect.pages import lifetime_window, pair_window, series_window
from auditor.collect.window import make_window, shown_name
from auditor.measures.targets import failed_target
from auditor.measures.vocabulary import Vocabulary, load_vocabulary
from auditor.model import EvidenceError, UsageError, Window
from auditor.sources.files import STDIN, read_file


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
    check_inputs(inputs)
    if inputs.prometheus is not None:
        from auditor.collect.past import past_window

        return past_window(inputs, vocabulary, say)
    if inputs.before is not None:
        return pair_window(inputs, vocabulary)
    if inputs.series:
        return series_window(inputs, vocabulary)
    log = window_of_logs(inputs, vocabulary)
    if log is not None:
        return log
    body = None
    if len(inputs.targets) == 1 and not is_address(inputs.targets[0]):
        try:
            body = read_file(inputs.targets[0])
        except EvidenceError as error:
            name = "standard input" if inputs.targets[0] == STDIN else inputs.targets[0]
            return make_window(
                "lifetime", [failed_target(name, str(error))], inputs, vocabulary, source=shown_name(name)
            )
        saved = window_of_document(inputs, body, vocabulary)
        if saved is not None:
            return saved
    live = [t for t in inputs.targets if is_address(t)]
    if inputs.window_seconds is not None:
        if len(live) != len(inputs.targets):
            raise UsageError("--window takes two scrapes of live servers; for saved pages use --before or --series")
        from auditor.collect.live import live_window

        return live_window(inputs, live, vocabulary, say)
    return lifetime_window(inputs, vocabulary, body)
