"""An engine's running log -> a Window: the poor man's source, for where nobody scraped.

A log has gauges of single moments and rates rolling over some seconds. It has no counter, so nothing here makes one:
gauges and printed rates become gauges, and every other quantity is missing with the reason.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.log_parts import MISSING, log_parts, name_of
from auditor.measures.targets import failed_target
from auditor.model import LogEvidence, Part, Setting, TargetWindow, UsageError, Window
from auditor.sources.files import STDIN
from auditor.streams import HEAD_BYTES, is_once_only, peek_head

if TYPE_CHECKING:
    from auditor.engine_logs import Boot, LogScan

LARGEST_COUNTS_BYTES = 64 * 1024
_SAMPLE = re.compile(r"[a-zA-Z_:][\w:]*(\{.*\})?\s+[-+]?(\d[\d.eE+-]*|NaN|Inf)(\s+-?[\d.]+)?\s*$")
_MESSAGE_KEYS = ("MESSAGE", "message", "msg", "log", "text", "textPayload", "line")


def find_logs(targets: Sequence[str]) -> dict[str, LogScan | Mapping[str, Any]] | None:
    """The logs among targets, read once in bounded memory; None where there is none.

    A file of batch counts (a JSON object with ``prefill_batches``) counts as one.

    Raises:
        UsageError: logs and pages side by side.
    """
    found: dict[str, LogScan | Mapping[str, Any]] = {}
    for target in dict.fromkeys(targets):
        read = _read(target, alone=len(targets) == 1)
        if read is not None:
            found[target] = read
    if not found:
        return None
    others = [t for t in targets if t not in found]
    if others:
        raise UsageError(
            f"{next(iter(found))} is an engine's log and {others[0]} is not: audit them apart, or give the log with "
            "--boot-log"
        )
    return found


def _read(target: str, *, alone: bool) -> LogScan | Mapping[str, Any] | None:
    head = _head(target, alone=alone)
    if head is None or not head.strip() or _is_page(head):
        return None
    if head.lstrip().startswith(b"{") and not _is_json_line(head):
        return _batch_counts(target) if not is_once_only(target) else None
    from auditor.engine_logs import scan_log

    scan = scan_log(target)
    # What can be read once only ends here, with a reason, when it is neither page nor JSON.
    return None if scan.is_empty and not is_once_only(target) else scan


def _head(target: str, *, alone: bool) -> bytes | None:
    """The first bytes of a file or of standard input, un-gzipped, and left where they are."""
    if is_once_only(target):
        if target == STDIN and not alone:
            return None
        try:
            head = peek_head(target)
        except OSError:
            return None
    elif os.path.isfile(target):  # Path raises on a name that is too long to be one
        try:
            with Path(target).open("rb") as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            return None
    else:
        return None
    if head is not None and head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return None
    return head


def _is_page(head: bytes) -> bool:
    """Whether most lines are samples of a page, or one says what a page's family is."""
    lines = head.decode("utf-8", "replace").splitlines()
    if any(line.startswith(("# HELP ", "# TYPE ")) for line in lines):
        return True
    plain = [line for line in lines if line.strip() and not line.startswith("#")]
    return 2 * sum(_SAMPLE.match(line) is not None for line in plain) > len(plain)


def _is_json_line(head: bytes) -> bool:
    """Whether the first line is a record of a JSON logger, and not the start of a document."""
    try:
        record = json.loads(head.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "schema" not in record and any(key in record for key in _MESSAGE_KEYS)


def log_window(
    read: Mapping[str, LogScan | Mapping[str, Any]],
    *,
    known_engines: frozenset[str],
    settings: Mapping[str, Setting],
    seconds: float | None = None,
) -> Window:
    """A window of running logs. Its length runs from the first running line to the last one."""
    targets = [
        _target(path, found, known_engines) if not isinstance(found, Mapping) else _counts_target(path, found)
        for path, found in read.items()
    ]
    scans = [found for found in read.values() if not isinstance(found, Mapping)]
    told: dict[str, Setting] = {}
    for found in read.values():
        told.update(_counts_settings(found) if isinstance(found, Mapping) else _settings(found))
    starts = [s.figures.start for s in scans if s.figures.start is not None]
    ends = [s.figures.end for s in scans if s.figures.end is not None]
    lengths = [t.times[-1] - t.times[0] for t in targets if len(t.times) > 1 and t.times[-1] and t.times[0] is not None]
    names = [name_of(path) for path in read]
    return Window(
        kind="series",
        start=min(starts) if len(starts) == len(scans) and starts else None,
        end=max(ends) if len(ends) == len(scans) and ends else None,
        seconds=max(lengths) if lengths else seconds,
        targets=tuple(targets),
        coverage=sum(t.state == "measured" for t in targets) / len(targets),
        restarts=sum(p.restarts for t in targets for p in t.parts[:1]),
        warnings=tuple(w for scan in scans for w in _warnings(scan)),
        settings={**told, **settings},
        source=f"log {names[0]}" if len(names) == 1 else f"{len(names)} logs",
    )


def _target(path: str, scan: LogScan, known_engines: frozenset[str]) -> TargetWindow:
    name = "standard input" if path == STDIN else path
    if scan.is_empty:
        return failed_target(name, "neither a page nor an engine's log: no line of it is known")
    if not scan.figures.lines:
        return failed_target(name, f"a boot log without running lines: auditor boots {name_of(path)} reads it")
    engine = "sglang" if scan.figures.batches else "vllm"
    if engine not in known_engines:
        return failed_target(name, f"{engine} has no declarations in this release")
    boot = _last_boot(scan)
    return TargetWindow(
        address=name,
        state="measured",
        engine=engine,
        version=boot.version if boot else None,
        times=_times(scan),
        parts=log_parts(name, engine, scan, _model(boot)),
        samples_read=scan.figures.lines,
    )


def _times(scan: LogScan) -> tuple[float | None, ...]:
    """First and last moment of the running lines; from 0 where the clock's year or zone is not known."""
    moments = [r.moment for r in scan.figures.records if r.moment is not None]
    if not moments or moments[-1] < moments[0]:
        return ()
    base = 0.0 if scan.figures.start is not None else moments[0]
    return moments[0] - base, moments[-1] - base


def _last_boot(scan: LogScan) -> Boot | None:
    return next((b for b in reversed(scan.boots) if b.settings), scan.boots[-1] if scan.boots else None)


def _model(boot: Boot | None) -> str | None:
    if boot is None:
        return None
    return boot.identity.get("model") or boot.identity.get("model_path")


def _settings(scan: LogScan) -> dict[str, Setting]:
    """Settings of the boot that the running lines belong to, with the concurrency it printed."""
    out = dict(scan.settings)
    boot = _last_boot(scan)
    if boot is not None and boot.max_concurrency is not None:
        out["kv_max_concurrency"] = Setting(boot.max_concurrency, f"boot log, boot at line {boot.line}")
    return out


def _warnings(scan: LogScan) -> list[str]:
    out = [f"{name_of(scan.file)}: {scan.cut}"] if scan.cut else []
    refused = sum(boot.state == "refused" for boot in scan.boots)
    if refused:
        out.append(
            f"{name_of(scan.file)}: {refused} of {len(scan.boots)} boots in it refused to start; auditor boots says why"
        )
    return out


# --------------------------------------------------------------------------- counts taken elsewhere


def _batch_counts(path: str) -> Mapping[str, Any] | None:
    """A JSON object of batch counts that somebody took from an SGLang log."""
    try:
        with Path(path).open("rb") as file:
            document = json.loads(file.read(LARGEST_COUNTS_BYTES + 1))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "prefill_batches" in document else None


def _number(path: str, counts: Mapping[str, Any], *names: str) -> float:
    value = next((counts[n] for n in names if n in counts), None)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise UsageError(f"{path}: batch counts need {names[0]}, a number of at least 0")
    return float(value)


def _counts_target(path: str, counts: Mapping[str, Any]) -> TargetWindow:
    from auditor.log_batches import batch_words

    low = _number(path, counts, "decode_batches_low", "decode_batches")
    high = _number(path, counts, "decode_batches_high", "decode_batches")
    seconds = _number(path, counts, "window_s", "window_seconds")
    prefill = _number(path, counts, "prefill_batches")
    running = counts.get("running_streams_min")
    found = batch_words(
        prefill_batches=int(prefill),
        decode_batches=(int(low), int(high)),
        seconds=seconds,
        running=int(running) if isinstance(running, int | float) else None,
        speculative=counts.get("speculative_decoding") is True,
    )
    evidence = LogEvidence(
        moved=prefill + high > 0,
        missing=MISSING,
        words={"log_only": f"{name_of(path)} holds counts of batches and nothing else: {MISSING}", **found.words},
        figures={"batches": dict(counts), **found.figures},
    )
    part = Part(path, "sglang", None, None, {}, log=evidence)
    return TargetWindow(path, "measured", "sglang", times=(0.0, seconds), parts=(part,))


def _counts_settings(counts: Mapping[str, Any]) -> dict[str, Setting]:
    chunk = counts.get("chunked_prefill_size")
    if isinstance(chunk, int | float) and not isinstance(chunk, bool) and chunk > 0:
        return {"budget": Setting(chunk, "batch counts")}
    return {}
