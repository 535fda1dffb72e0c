"""Reading the recorded pages twice: by the program under test, and by thirty lines that share nothing with it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.collect import Inputs, collect
from auditor.model import Options, Reading, Report, Setting, SubjectReport, Window
from auditor.pipeline import audit_window

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
VLLM = FIXTURES / "vllm"

_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$")
_PAIR = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')

Raw = list[tuple[str, dict[str, str], float]]


def raw_page(path: Path) -> Raw:
    """Every sample of a page: a regular expression a line, nothing else."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    out: Raw = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            out.append((match[1], dict(_PAIR.findall(match[2] or "")), float(match[3])))
    return out


def total(page: Raw, name: str, **labels: str) -> float:
    """Sum of the samples of one name that carry these labels."""
    return sum(v for n, found, v in page if n == name and all(found.get(k) == x for k, x in labels.items()))


def rise(before: Raw, after: Raw, name: str, **labels: str) -> float:
    return total(after, name, **labels) - total(before, name, **labels)


def truth(folder: Path) -> dict[str, Any]:
    """What the client of a capture knows."""
    data: dict[str, Any] = json.loads((folder / "workload.json").read_text())
    return data


def flag_value(workload: Mapping[str, Any], flag: str) -> float | None:
    flags = workload.get("flags") or []
    return float(flags[flags.index(flag) + 1]) if flag in flags else None


def scrape_distance(workload: Mapping[str, Any]) -> float:
    return float(workload["after"]["at"]) - float(workload["before"]["at"])


def gather(*targets: Path, **inputs: Any) -> Window:
    settings = {k: Setting(v, "flag") for k, v in inputs.pop("settings", {}).items()}
    if "before" in inputs:
        inputs["before"] = str(inputs["before"])
    if "series" in inputs:
        inputs["series"] = tuple(str(p) for p in inputs["series"])
    return collect(Inputs(targets=tuple(str(t) for t in targets), settings=settings, **inputs))


def audit(*targets: Path, options: Options | None = None, **inputs: Any) -> Report:
    """The report of pages, through the same two calls as the command line."""
    return audit_window(gather(*targets, **inputs), options or Options())


def audit_capture(folder: Path, *, options: Options | None = None, **settings: float) -> SubjectReport:
    """The one subject of a capture between its two pages, with the scrape distance that its client wrote down."""
    workload = truth(folder)
    seconds = scrape_distance(workload) if "after" in workload else None
    return only(
        audit(folder / "after.prom", before=folder / "before.prom", seconds=seconds, options=options, settings=settings)
    )


def only(report: Report) -> SubjectReport:
    (subject,) = report.subjects
    return subject


def value(subject: SubjectReport, name: str) -> float:
    reading = subject.readings[name]
    assert reading.value is not None, f"{name} has no value: {reading.state}, {reading.reason}"
    return reading.value


def limits(subject: SubjectReport, name: str) -> tuple[float | None, float | None]:
    reading = subject.readings[name]
    assert reading.state == "bounded", f"{name} is {reading.state}: {reading.reason}"
    return reading.low, reading.high


def state(subject: SubjectReport, name: str) -> str:
    return subject.readings[name].state


def verdict(subject: SubjectReport, audit_id: str) -> str:
    return next(v.verdict for v in subject.audits if v.audit == audit_id)


def summary(subject: SubjectReport, audit_id: str) -> str:
    return next(v.summary for v in subject.audits if v.audit == audit_id)


def check_limits(readings: Iterable[Reading]) -> None:
    """What no reading may break, whatever the page."""
    signed = {
        "unmatched_first_tokens",
        "unmatched_first_token_share",
        "unfinished_prompt_tokens",
        "unfinished_prompt_share",
    }
    for r in readings:
        numbers = [n for n in (r.value, r.low, r.high, r.count) if n is not None]
        json.dumps(r.to_json(), allow_nan=False)
        assert (r.value is None) == (r.state not in ("measured", "partial")), r
        if r.state not in ("measured", "partial", "bounded"):
            assert r.reason, r
            assert r.low is None, r
            assert r.high is None, r
        if r.low is not None and r.high is not None:
            assert r.low <= r.high + 1e-9 * abs(r.high), r
            if r.value is not None:
                assert r.low <= r.value <= r.high, r
        if r.name in signed:
            continue
        assert all(n >= 0 for n in numbers), r
        if r.unit == "ratio" and (r.name.endswith("_share") or r.name.startswith("kv_usage")):
            assert all(n <= 1 + 1e-9 for n in (r.value, r.low, r.high) if n is not None), r


def cut(window: Window, first: int, last: int) -> Window:
    """The part of a series between two of its pages."""
    (target,) = window.targets
    times = target.times[first : last + 1]
    series = tuple(
        replace(s, values=s.values[first : last + 1]) for s in target.series if any(v is not None for v in s.values)
    )
    start, end = times[0], times[-1]
    seconds = end - start if start is not None and end is not None else None
    kind = "scrapes" if last - first == 1 else "series"
    return replace(
        window,
        kind=kind,
        start=start,
        end=end,
        seconds=seconds,
        targets=(replace(target, times=times, series=series),),
    )
