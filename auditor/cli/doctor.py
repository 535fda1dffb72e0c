"""``auditor doctor``: reachable? which engine, which names, what can be read?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from auditor.cli.inputs import gather_targets, read_transport, transport_options
from auditor.cli.options import DURATION, complete_files, option
from auditor.cli.writing import write_results, writing_options
from auditor.model import EvidenceError, UsageError

if TYPE_CHECKING:
    from auditor.measures.doctor import Diagnosis
    from auditor.measures.vocabulary import Vocabulary
    from auditor.model import Page

FORMATS = ("terminal", "json")


@click.command("doctor")
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=complete_files)
@option(
    "--targets",
    "targets_file",
    type=click.Path(),
    metavar="FILE",
    envvar="AUDITOR_TARGETS",
    help="Targets, one a line, or Prometheus file_sd JSON or YAML.",
)
@option("--expand-dns", is_flag=True, help="Take each address of a name as a target.")
@option("--prometheus", metavar="URL", help="Look at what a metrics server holds instead.")
@option("--window", type=DURATION, default="1h", show_default=True, help="With --prometheus: how far back to look.")
@option("--match", metavar="SELECTOR", help="With --prometheus: only these series.")
@transport_options
@writing_options
def command(**values: Any) -> int:
    """Say what is behind an address or in a file, and what can be read from it.

    Engine, release as far as its series tell, names it uses, readings that can be had and what would switch the others
    on, series that are unknown, series that should be there, and names that resolve to several machines.

    \b
    auditor doctor http://host:8000
    auditor doctor page.prom --as json
    auditor doctor --prometheus http://prom:9090
    """
    _check_formats(values)
    from auditor.measures.doctor import doctor_document
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.pipeline import TOOL

    # Once: a list of targets may come from standard input.
    targets = gather_targets(values)
    _check_unread(targets, values)
    if values["prometheus"]:
        found = _held(values, load_vocabulary())
        return write_results(doctor_document(found, tool=TOOL), values)
    vocabulary = load_vocabulary()
    diagnoses = [_examine(address, page, failure, addresses, vocabulary)
                 for address, page, failure, addresses in _pages(targets, values, vocabulary)]  # fmt: skip
    return write_results(doctor_document(diagnoses, tool=TOOL), values)


def _check_unread(targets: Sequence[str], values: dict[str, Any]) -> None:
    """An option that would be left unread is a mistake: whoever gave it believes that it did something."""
    from auditor.collect import is_address

    if values["prometheus"]:
        if targets:
            raise UsageError("--prometheus finds its targets itself; choose among them with --match '{job=\"vllm\"}'")
        if values["expand_dns"]:
            raise UsageError("--expand-dns is for live servers, and a metrics server was asked for")
        return
    if not targets:
        raise UsageError("no target given: a URL, a file, or - for standard input")
    if values["match"] is not None:
        raise UsageError("--match chooses among the series of a metrics server; it goes with --prometheus URL")
    # The environment may hold a window for audits.
    if click.get_current_context().get_parameter_source("window") is ParameterSource.COMMANDLINE:
        raise UsageError("--window says how far back to look at a metrics server; it goes with --prometheus URL")
    if values["expand_dns"] and not any(map(is_address, targets)):
        raise UsageError("--expand-dns is for live servers, and no target is one")


def _check_formats(values: dict[str, Any]) -> None:
    asked = [values["as_"], *(text.partition("=")[0] for text in values.get("output") or ())]
    for name in asked:
        if name not in FORMATS:
            raise UsageError(f"doctor writes {' or '.join(FORMATS)}, not {name!r}")


def _examine(
    address: str, page: Page | None, failure: str | None, addresses: list[str], vocabulary: Vocabulary
) -> Diagnosis:
    from auditor.measures.doctor import diagnose, diagnose_failure
    from auditor.measures.targets import build_target
    from auditor.model import Options, Window
    from auditor.pipeline import build_subjects

    if page is None:
        return diagnose_failure(address, failure or "no page", addresses=addresses)
    target = build_target(address, [(None, page)], vocabulary, saved=True)
    window = Window(kind="lifetime", start=None, end=None, seconds=None, targets=(target,))
    subjects = build_subjects(window, Options(), vocabulary=vocabulary)
    return diagnose(target, page, vocabulary, subjects, addresses=addresses)


def _held(values: dict[str, Any], vocabulary: Vocabulary) -> list[Diagnosis]:
    """One diagnosis for each engine and form of its names that a metrics server holds."""
    from dataclasses import replace

    from auditor.cli.inputs import warn
    from auditor.measures.doctor import diagnose
    from auditor.model import Options, Page, PageShape
    from auditor.pipeline import build_subjects
    from auditor.ranges import RangeRequest, collect_range, names_there

    request = RangeRequest(values["prometheus"], values["window"], match=values["match"])
    transport = read_transport(values)
    names = names_there(request, vocabulary, transport=transport)
    window = collect_range(request, vocabulary, transport=transport, say=warn)
    out = []
    for target in window.targets:
        held = names.get((target.engine or "", target.form))
        if held is None or not any(p.pooled for p in target.parts):
            continue
        alike = tuple(t for t in window.targets if (t.engine, t.form) == (target.engine, target.form))
        subjects = build_subjects(replace(window, targets=alike), Options(), vocabulary=vocabulary)
        page = Page(PageShape((), samples_read=0, names_read=held), ())
        found = diagnose(target, page, vocabulary, subjects)
        where = f"{len(alike) - 1} targets; {window.source}"
        out.append(replace(found, remarks=(*found.remarks, where, *window.warnings)))
    return out


def _pages(
    targets: Sequence[str], values: dict[str, Any], vocabulary: Vocabulary
) -> list[tuple[str, Page | None, str | None, list[str]]]:
    """(address, page or None, why not, what the name resolves to) of every target, files first."""
    from auditor.collect import is_address
    from auditor.sources.exposition import parse_page
    from auditor.sources.files import STDIN, read_file

    out: list[tuple[str, Page | None, str | None, list[str]]] = []
    live = []
    for target in targets:
        if is_address(target):
            live.append(target)
            continue
        name = "standard input" if target == STDIN else target
        try:
            out.append((name, parse_page(read_file(target), wanted=vocabulary.wanted), None, []))
        except EvidenceError as error:
            out.append((name, None, str(error), []))
    return out + (_scraped(live, values, vocabulary) if live else [])


def _scraped(
    live: list[str], values: dict[str, Any], vocabulary: Vocabulary
) -> list[tuple[str, Page | None, str | None, list[str]]]:
    from auditor.collect import expand_addresses
    from auditor.http import Client
    from auditor.sources.scrape import metrics_url, scrape_all

    urls = expand_addresses([metrics_url(t) for t in live], expand=bool(values["expand_dns"]))
    with Client(read_transport(values)) as client:
        found = scrape_all(client, urls, vocabulary.wanted)
    return [(got.address, got.page, got.failure, _resolve(url)) for url, got in zip(urls, found, strict=True)]


def _resolve(url: str) -> list[str]:
    """Addresses behind a URL's name; none where it does not resolve here (a proxy may know better)."""
    from urllib.parse import urlsplit

    from auditor.http import resolve_addresses

    parts = urlsplit(url)
    try:
        return resolve_addresses(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except EvidenceError:
        return []
