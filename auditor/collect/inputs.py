"""What a command line says about where evidence comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.http import Transport
from auditor.model import Setting, UsageError
from auditor.streams import STDIN, is_once_only

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


def check_inputs(inputs: Inputs) -> None:
    ways = [inputs.prometheus is not None, inputs.before is not None, bool(inputs.series)]
    if sum(ways) > 1:
        raise UsageError("--prometheus, --before and --series are three different inputs; give one of them")
    if inputs.prometheus is None and not inputs.targets and not inputs.series:
        raise UsageError("no target given: a URL, a file, or - for standard input")
    if inputs.before is not None and len(inputs.targets) != 1:
        raise UsageError("--before goes with exactly one later page of the same server")
    if (inputs.every_seconds or inputs.times) and not inputs.series:
        raise UsageError("--every and --times go with --series")
    named = [path for path in (*inputs.targets, *inputs.series, inputs.before) if path is not None]
    twice = next((path for path in named if named.count(path) > 1 and is_once_only(path)), None)
    if twice is not None:
        raise UsageError(f"{'- (standard input)' if twice == STDIN else twice} can be read once only")
    if inputs.before is not None and (is_address(inputs.before) or is_address(inputs.targets[0])):
        raise UsageError("--before takes two saved pages; for a live server use --window")
    if inputs.before is not None and inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; the distance of two saved pages is --seconds N")
    _check_server_options(inputs)
    _check_lengths(inputs)


def _check_server_options(inputs: Inputs) -> None:
    """An option that would be left unread is a mistake: whoever gave it believes that it did something."""
    if inputs.prometheus is None:
        for name, given, what in (
            ("--match", inputs.match, "chooses among the series of"),
            ("--end", inputs.end, "says when a window ended at"),
            ("--exact", inputs.exact or None, "reads the raw samples of"),
        ):
            if given is not None:
                raise UsageError(f"{name} {what} a metrics server; it goes with --prometheus URL")
    if inputs.expand_dns and not _live(inputs):
        raise UsageError("--expand-dns is for live servers, and no target is one")


def _check_lengths(inputs: Inputs) -> None:
    if inputs.series and inputs.window_seconds is not None:
        raise UsageError("--window is for live servers; the times of a series are --every 2s or --times FILE")
    if inputs.seconds is None:
        return
    if inputs.prometheus is not None:
        raise UsageError("--seconds is the distance of two saved pages; with --prometheus the length is --window")
    if inputs.every_seconds or inputs.times:
        raise UsageError("--seconds is the length of a series without times; --every and --times tell it already")
    if _live(inputs):
        raise UsageError("--seconds is the distance of two saved pages; a live server is watched for --window 60s")


def _live(inputs: Inputs) -> list[str]:
    """The targets that are asked over the network."""
    return [] if inputs.prometheus is not None or inputs.series else [t for t in inputs.targets if is_address(t)]


def is_address(target: str) -> bool:
    """Whether a target is to be asked over the network, and is no file."""
    if target.startswith(("http://", "https://")):
        return True
    # os.path, since Path.exists raises on names that are too long to be one.
    if target == STDIN or os.path.exists(target):
        return False
    from auditor.sources.scrape import looks_like_address

    return looks_like_address(target)
