"""Small pages as text, for tests that need one series to be just so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.measures.targets import build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Options, Report, Setting, SubjectReport, TargetWindow, Window
from auditor.pipeline import audit_window
from auditor.sources.exposition import parse_page

LABELS = 'engine="0",model_name="m"'


def counter(name: str, value: float, labels: str = LABELS) -> str:
    return f"# TYPE vllm:{name}_total counter\nvllm:{name}_total{{{labels}}} {value}\n"


def gauge(name: str, value: float, labels: str = LABELS) -> str:
    return f"# TYPE vllm:{name} gauge\nvllm:{name}{{{labels}}} {value}\n"


def histogram(name: str, buckets: Mapping[float, float], total: float, labels: str = LABELS) -> str:
    """``buckets``: upper edge -> observations in that bucket, not cumulative; the open one is added if missing."""
    lines, below = [f"# TYPE vllm:{name} histogram\n"], 0.0
    for edge in sorted({*buckets, float("inf")}):
        below += buckets.get(edge, 0.0)
        le = "+Inf" if edge == float("inf") else repr(float(edge))
        lines.append(f'vllm:{name}_bucket{{{labels},le="{le}"}} {below}\n')
    lines.append(f"vllm:{name}_count{{{labels}}} {below}\nvllm:{name}_sum{{{labels}}} {total}\n")
    return "".join(lines)


def started(at: float) -> str:
    return f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {at}\n"


def target(
    *pages: str, times: Sequence[float | None] | None = None, saved: bool = False, address: str = "page"
) -> TargetWindow:
    at = times or [None] * len(pages)
    parsed = [(t, parse_page(text.encode())) for t, text in zip(at, pages, strict=True)]
    return build_target(address, parsed, load_vocabulary(), saved=saved)


def window(*targets: TargetWindow, seconds: float | None = None, **settings: Any) -> Window:
    pages = max(len(t.times) for t in targets)
    times = [t for t in targets[0].times if t is not None]
    kind = "lifetime" if pages == 1 else "scrapes" if pages == 2 else "series"
    return Window(
        kind=kind,  # type: ignore[arg-type]
        start=times[0] if len(times) > 1 else None,
        end=times[-1] if times else None,
        seconds=seconds if seconds is not None else (times[-1] - times[0] if len(times) > 1 else None),
        targets=targets,
        settings={k: Setting(v, "flag") for k, v in settings.items()},
    )


def report(*pages: str, seconds: float | None = None, options: Options | None = None, **settings: Any) -> Report:
    return audit_window(window(target(*pages), seconds=seconds, **settings), options or Options())


def subject(
    *pages: str, seconds: float | None = None, options: Options | None = None, **settings: Any
) -> SubjectReport:
    (found,) = report(*pages, seconds=seconds, options=options, **settings).subjects
    return found
