"""``auditor gate``: premises from a file, a verdict, and an exit code that a pipeline can trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from auditor.cli.ending import worst
from auditor.cli.inputs import gather, input_options, warn
from auditor.cli.options import judging_options, option, read_options
from auditor.cli.writing import check_outputs, write_results, write_stdout, writing_options

if TYPE_CHECKING:
    from auditor.gate.baselines import Baselines
    from auditor.gate.model import Names, PremisesFile
    from auditor.model import Options

OURS = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


@click.command("gate")
@input_options
@judging_options
@writing_options
@option(
    "--premises",
    "premises_file",
    type=click.Path(),
    metavar="FILE",
    envvar="AUDITOR_PREMISES",
    help="What must be true: premises.yaml.",
)
@option("--allow-lifetime", is_flag=True, help="Accept one scrape, which shows the engine's whole life.")
@option(
    "--baseline",
    multiple=True,
    type=click.Path(),
    metavar="REPORT",
    help="JSON report to be no worse than; three or more are repeats that measure the noise.",
)
@option("--store", type=click.Path(), metavar="DB", help="Take baselines from the history of nightly runs.")
@option("--init", is_flag=True, help="Write a commented starter file from this audit to stdout, and judge nothing.")
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> int:
    """Judge premises against one server, a fleet, saved pages or a metrics server.

    \b
    auditor gate http://host:8000 --window 60s --premises premises.yaml
    auditor gate --before t0.prom t1.prom --premises premises.yaml --as github
    auditor gate --init http://host:8000 --window 60s > premises.yaml

    Exit codes: 0 every gated premise holds, 1 one is broken, 2 the file or an option is wrong, 3 undecided, 4 a fault of ours.
    """
    from auditor.gating import gate_window, known_names
    from auditor.model import UsageError

    options = read_options(values)
    names = known_names()
    if values["init"]:
        for name, flag in (("premises_file", "--premises"), ("baseline", "--baseline"), ("store", "--store")):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise UsageError(f"--init writes a file to begin with and judges nothing; leave {flag} away")
        return _init(values, options, names)
    if not values["premises_file"]:
        raise UsageError("--premises FILE is needed; auditor gate --init TARGET writes one to begin with")
    check_outputs(values)
    from auditor.gate.reader import read_premises

    premises = read_premises(values["premises_file"], names)
    options = _with_file(ctx, options, premises)
    terms = _terms(values, options)
    judgement = gate_window(gather(values), premises, options, terms, names=names)
    report = judgement.report.with_exit_code(worst(judgement.codes))
    _say_outcome(report.gate or {})
    return write_results(report.to_json(), values)


def _init(values: Mapping[str, Any], options: Options, names: Names) -> int:
    from auditor.gate.evidence import idle_reason, target_words
    from auditor.gate.starter import starter_file
    from auditor.model import EvidenceError
    from auditor.pipeline import audit_window

    report = audit_window(gather(values), options)
    if not report.subjects:
        raise EvidenceError(f"nothing was measured, so there is nothing to begin with: {target_words(report.targets)}")
    if (idle := idle_reason(report)) is not None:
        warn(f"{idle}; the file has no limits from it")
    write_stdout(starter_file(report, names, min_requests=options.min_requests, min_coverage=options.min_coverage))
    return report.exit_code


def _with_file(ctx: click.Context, options: Options, premises: PremisesFile) -> Options:
    """Option, environment, premises file, default: the first that speaks wins."""
    given = {name: ctx.get_parameter_source(name) in OURS for name in ("min_requests", "min_coverage")}
    if premises.min_requests is not None and not given["min_requests"]:
        options = replace(options, min_requests=premises.min_requests)
    if premises.min_coverage is not None and not given["min_coverage"]:
        options = replace(options, min_coverage=premises.min_coverage)
    return options


def _terms(values: Mapping[str, Any], options: Options) -> Any:
    from datetime import UTC, datetime

    from auditor.gate.judge import Terms

    return Terms(
        today=datetime.now(UTC).date(),
        min_requests=options.min_requests,
        min_coverage=options.min_coverage,
        allow_lifetime=bool(values["allow_lifetime"]),
        baselines=_baselines(values, options),
    )


def _baselines(values: Mapping[str, Any], options: Options) -> Baselines | None:
    from auditor.gating import open_history, read_baselines
    from auditor.model import UsageError

    if values["baseline"] and values["store"]:
        raise UsageError("--baseline and --store both say what to compare with; give one of them")
    if values["baseline"]:
        return read_baselines(values["baseline"], min_requests=options.min_requests)
    return open_history(values["store"]) if values["store"] else None


def _say_outcome(gate: Mapping[str, Any]) -> None:
    """The closing line: a log that shows stderr only must not hide why a pipeline stopped."""
    from auditor.outputs._gate import closing_lines

    for line in closing_lines(gate):
        warn(line)
