"""``auditor step``: what one engine step holds, and what another budget would mean for a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.inputs import read_transport, transport_options
from auditor.cli.options import Number, option
from auditor.cli.writing import write_results, writing_options
from auditor.model import EvidenceError, Setting, UsageError

if TYPE_CHECKING:
    from auditor.planning.step import StepQuestion

NUMBERS = ("budget", "seats", "draft_tokens", "threshold", "context", "block_size")
"""What an option or --from may tell, in whole tokens."""
FROM_SETTING = {"draft_tokens": "speculative_tokens"}


@click.command("step")
@option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of a step: max_num_batched_tokens, chunked-prefill-size.",
)
@option("--seats", type=click.IntRange(1), metavar="N", help="Requests that decode at once: max_num_seqs.")
@option(
    "--draft-tokens", type=click.IntRange(0), metavar="K", help="Draft tokens of speculative decoding; 0 by default."
)
@option("--prompt", type=click.IntRange(1), metavar="N", help="Length of the prompt that is asked about, in tokens.")
@option("--threshold", type=click.IntRange(0), metavar="N", help="long_prefill_token_threshold; 0 is off.")
@option("--context", type=click.IntRange(1), metavar="N", help="max_model_len.")
@option("--block-size", type=click.IntRange(1), metavar="N", help="Tokens in a KV block: what a full repeat can hit.")
@option(
    "--ms-per-prompt-token",
    type=Number(0, min_open=True),
    metavar="X",
    help="Engine time of one prompt token.",
)
@option(
    "--ms-per-output-token",
    type=Number(0, min_open=True),
    metavar="X",
    help="Time of one output token of a request.",
)
@option(
    "--output-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Length of the answer: the request's own split, and the demand.",
)
@option(
    "--sweep",
    metavar="N,N,...",
    help="Several budgets side by side; the smallest that does not starve prefill is marked.",
)
@option("--from", "from_", metavar="TARGET", help="Take settings and costs from a page, a saved window or a report.")
@option(
    "--engine",
    type=click.Choice(["vllm", "sglang"]),
    help="vllm: decode first (default). sglang: a prefill batch runs alone.",
)
@transport_options
@writing_options
def command(**values: Any) -> int:
    """Say what one step holds: decode first, prefill in what is left, and how long everybody waits for it.

    Without a cost per prompt token only tokens and steps are known. A cost read with --from is an upper value: requests
    that share a step each count the whole step. A threshold above the context, and a budget below what decode takes of
    every step, end with 2.

    \b
    auditor step --budget 8192 --seats 8 --draft-tokens 4 --prompt 32768 --ms-per-prompt-token 0.49
    auditor step --sweep 2048,4096,8192 --seats 32 --prompt 8000 --output-tokens 400
    auditor step --from report.json --sweep 2048,8192 --prompt 38000 --output-tokens 700
    """
    from auditor.pipeline import TOOL
    from auditor.planning.documents import make_step_document
    from auditor.planning.step import StepQuestion, plan_step, project_request, sweep_budgets

    known = _known_from(values) if values["from_"] else _Known()
    settings = _settings(values, known)
    budgets = _budgets(values["sweep"], settings.get("budget"))
    if "seats" not in settings:
        raise UsageError("--seats N is needed: how many requests decode at once" + known.lacks("seats"))
    cost = values["ms_per_prompt_token"]
    question = StepQuestion(
        seats=_whole(settings["seats"]),
        draft_tokens=_whole(settings["draft_tokens"]) if "draft_tokens" in settings else 0,
        prompt=values["prompt"],
        threshold=_whole(settings["threshold"]) if "threshold" in settings else 0,
        context=_whole(settings["context"]) if "context" in settings else None,
        block_size=_whole(settings["block_size"]) if "block_size" in settings else None,
        ms_per_prompt_token=cost if cost is not None else known.ms_per_prompt_token,
        output_tokens=values["output_tokens"],
        engine=values["engine"] or known.engine,
        cost_is_upper=cost is None and known.ms_per_prompt_token is not None,
    )
    rows = sweep_budgets(question, budgets) if values["sweep"] else (plan_step(question, budgets[0]),)
    own_decode = values["ms_per_output_token"]
    split = None
    if question.prompt is not None:
        split = project_request(
            prompt_tokens=question.prompt,
            ms_per_prompt_token=question.ms_per_prompt_token,
            output_tokens=question.output_tokens,
            seconds_per_output_token=own_decode / 1000 if own_decode is not None else known.seconds_per_output_token,
        )
    document = make_step_document(
        question, rows, split=split, settings={name: s.to_json() for name, s in sorted(settings.items())}
    )
    notes = [*document["notes"], *known.notes]
    if split is not None and split.decode_seconds is not None and own_decode is None:
        notes.append(
            "the cost per output token was read from a page: it holds for the load of that page, and contains other "
            "requests' prefill, so it is an upper value too"
        )
    document = {"schema": document["schema"], "kind": document["kind"], "tool": TOOL, "question": _asked(question),
                **document, "notes": notes, "exit_code": 0}  # fmt: skip
    return write_results(document, values)


class _Known:
    """What --from told: settings with their sources, costs, and what it could not tell."""

    def __init__(self) -> None:
        self.name = ""
        self.engine: Any = "vllm"
        self.settings: dict[str, Setting] = {}
        self.ms_per_prompt_token: float | None = None
        self.seconds_per_output_token: float | None = None
        self.notes: list[str] = []

    def lacks(self, name: str) -> str:
        return f" ({self.name} does not tell {name})" if self.name else ""


def _known_from(values: Mapping[str, Any]) -> _Known:
    """Read settings and costs off a page, a window or a report.

    Raises:
        UsageError: a file that is not there, or one with several subjects.
        EvidenceError: nothing was measured there.
    """
    known = _Known()
    known.name = values["from_"]
    report = _report(known.name, values)
    subjects = report.get("subjects") or []
    if not subjects:
        reasons = "; ".join(t["reason"] or t["state"] for t in report.get("targets", ()))
        raise EvidenceError(f"--from {known.name}: no engine was measured ({reasons or 'no target'})")
    if len(subjects) > 1:
        named = "; ".join(", ".join(f"{k} {v}" for k, v in s["labels"].items()) for s in subjects)
        raise UsageError(
            f"--from {known.name}: {len(subjects)} subjects ({named}); give a page or report of one of them"
        )
    subject = subjects[0]
    known.settings = {name: Setting(s["value"], s["source"]) for name, s in subject["settings"].items()}
    if subject["labels"].get("engine") == "sglang":
        known.engine = "sglang"
    for name, option_name in (
        ("prefill_ms_per_computed_token", "--ms-per-prompt-token"),
        ("decode_seconds_per_token", "--ms-per-output-token"),
    ):
        reading = subject["readings"].get(name) or {"value": None, "reason": "it is not in this report"}
        if reading["value"] is None or reading["value"] <= 0:
            known.notes.append(f"{known.name} gives no {name} ({reading['reason'] or 'it is 0'}); give {option_name}")
        elif name == "prefill_ms_per_computed_token":
            known.ms_per_prompt_token = float(reading["value"])
        else:
            known.seconds_per_output_token = float(reading["value"])
    return known


def _report(target: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    from pathlib import Path

    from auditor.collect import Inputs, collect
    from auditor.model import Options
    from auditor.pipeline import audit_window
    from auditor.sources.files import as_saved_document, read_file

    if Path(target).is_file() and (document := as_saved_document(read_file(target))) is not None:
        if document["kind"] == "audit":
            return document
        if document["kind"] != "window":
            raise UsageError(f"--from {target}: is a saved {document['kind']}; a page, a window or a report is needed")
    window = collect(Inputs(targets=(target,), transport=read_transport(values)))
    return audit_window(window, Options()).to_json()


def _settings(values: Mapping[str, Any], known: _Known) -> dict[str, Setting]:
    """Settings in force for the sum: options first, then what --from told."""
    out: dict[str, Setting] = {}
    for name in NUMBERS:
        told = known.settings.get(FROM_SETTING.get(name, name))
        if values.get(name) is not None:
            out[name] = Setting(values[name], "flag")
        elif told is not None and isinstance(told.value, int | float) and not isinstance(told.value, bool):
            out[name] = told
    return out


def _whole(setting: Setting) -> int:
    return int(float(setting.value))


def _budgets(sweep: str | None, budget: Setting | None) -> list[int]:
    if sweep is None:
        if budget is None:
            raise UsageError("--budget N is needed, or --sweep N,N,... for several")
        return [_whole(budget)]
    found = []
    for text in sweep.split(","):
        digits = text.strip().replace("_", "")
        if not digits.isdigit() or int(digits) < 1:
            raise UsageError(f"--sweep {sweep}: {text.strip()!r} is no number of tokens; write 2048,4096,8192")
        found.append(int(digits))
    # The budget that was asked for stands among the others, so that they can be compared with it.
    return found + ([_whole(budget)] if budget is not None else [])


def _asked(question: StepQuestion) -> dict[str, Any]:
    """The question itself: what the rows are about."""
    names = ("engine", "seats", "draft_tokens", "prompt", "output_tokens", "threshold", "context", "block_size",
             "ms_per_prompt_token", "cost_is_upper")  # fmt: skip
    return {name: getattr(question, name) for name in names}
