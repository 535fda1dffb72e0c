"""Lines of an engine's log, one at a time, without what terminals and log collectors put around them.

Reads plain text and gzip, UTF-8 and UTF-16, in bounded memory: a line longer than
``LINE_LIMIT`` bytes is cut there, and lines that no reader of this room could use are dropped before
they are decoded. Known wrappers: colour codes (also as rsyslog and terminals write them), journald
short, ISO and JSON output, ``docker logs -t``, Docker's json-file, the Kubernetes CRI format with its
partial lines, ``kubectl logs --prefix``, Compose, and JSON loggers.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from auditor.model import UsageError
from auditor.streams import once_only

LINE_LIMIT = 256 * 1024
"""Bytes of one line that are looked at. The longest that matter (start-up arguments) have about 20 KB."""

ClockKind = Literal["zone", "no_zone", "no_year"]


class LogLine(NamedTuple):
    """One line of a log.

    ``text`` is the engine's message alone. ``source`` is the container, pod or unit a collector named,
    ``process`` the engine's own tag of the process (``EngineCore_DP0``, ``TP1``); both may be empty.
    ``moment`` is in seconds: Unix time where ``clock`` is ``zone``, on a clock of unknown zone or year else.
    """

    number: int
    text: str
    source: str = ""
    process: str = ""
    level: str = ""
    moment: float | None = None
    clock: ClockKind | None = None


WANTED = tuple(
    word.encode()
    for word in (
        "token", "batch", "KV ", "kv_cache", "blocks", "block size", "page size", "padding layers",
        "Maximum concurrency", "refix cach", "_args", "args: ", "nitializing a", "init engine", "version ",
        "prefill", "max_model_len", "max model len", "max seq len", "long context", "peak_torch",
        "model weights", "memory", "Memory", "startup complete", "fired up", "core init", "failed to start",
        "died unexpectedly", "reempt", "etract", "api_server_count", "# arm ", "MESSAGE",
    )
)  # fmt: skip
"""Raw lines that hold none of these can tell nothing to any reader here."""

_CUT_NUMBER = re.compile(rb"[\d.,]*\d$")
"""A number that touches the end of a cut line may have lost digits, and would read as a smaller one."""

_ANSI = re.compile(r"(?:\x1b|#033|\^\[|\\u001b)?\[[0-9;]{0,16}m|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_PARTIAL = re.compile(rb"^\d{4}-\d\d-\d\dT\S+ std(?:out|err) P ")
_CRI = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\S+) (?P<stream>stdout|stderr) [FP](?: |$)")
_ISO = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC)|[+-]\d\d:?\d\d)?)(?:: "
    r"|\s+(?:\|\s)?|$)"
)
_SYSLOG = re.compile(
    r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) \S+ (?P<unit>[\w@.:/-]+?)(?:\[\d+\])?: ?"
)
_UNIT = re.compile(r"\S+ (?P<unit>[\w@.:/-]+?)\[\d+\]: ?")
_POD = re.compile(r"\[pod/(?P<unit>[^\]]+)\] ?")
_COMPOSE = re.compile(r"(?P<unit>[A-Za-z0-9][\w.-]*)\s*\| ?")
_TAG = re.compile(r"\((?P<process>[A-Za-z][\w.-]*)(?: rank=\d+)? pid=\d+[^)]*\) ?|\(pid=\d+[^)]*\) ?")
_SGLANG = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<process>(?: [A-Z]{2,}\d+)*)\] ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r" \[?[\w./-]+:\d+\] ?"
)
_MESSAGE_KEYS = ("MESSAGE", "message", "msg", "log", "text", "textPayload", "line")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "__REALTIME_TIMESTAMP")
_UNIT_KEYS = ("CONTAINER_NAME", "_SYSTEMD_UNIT", "pod", "container", "container_name")


class LogReader:
    """Iterates over the lines of one log that could matter.

    After the loop ``lines_read`` is the number of raw lines, and ``cut`` says, in words, why the end is
    not the log's own end (a damaged gzip stream), or is None.

    Raises UsageError where the file is not there or cannot be read.
    """

    def __init__(self, path: str | Path, *, stream: IO[bytes] | None = None) -> None:
        self.name = str(path)
        self.lines_read = 0
        self.cut: str | None = None
        self._given = stream

    def __iter__(self) -> Iterator[LogLine]:
        partial: dict[bytes, bytes] = {}
        for number, raw in self._raw_lines():
            if b" HTTP/1." in raw:  # an access line: most of most logs, and never of use here
                continue
            if b" P " in raw and _PARTIAL.match(raw):
                stream = raw.split(b" ", 2)[1]
                body = raw.rstrip(b"\r\n").split(b" P ", 1)[1]
                held = partial.get(stream) or raw.split(b" P ", 1)[0] + b" F "
                partial[stream] = (held + body)[:LINE_LIMIT]
                continue
            if partial:
                raw = self._join(partial, raw)
            if _is_wanted(raw):
                yield from _split(number, raw)
        for held in partial.values():
            yield from _split(self.lines_read, held)

    @staticmethod
    def _join(partial: dict[bytes, bytes], raw: bytes) -> bytes:
        pieces = raw.split(b" ", 3)
        if len(pieces) == 4 and pieces[2] == b"F" and pieces[1] in partial:
            return (partial.pop(pieces[1]) + pieces[3])[:LINE_LIMIT]
        return raw

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self._open() as stream:
                while chunk := stream.readline(LINE_LIMIT):
                    self.lines_read += 1
                    if not chunk.endswith(b"\n"):  # the last line, or one beyond the limit
                        while (rest := stream.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                            pass
                        chunk = _CUT_NUMBER.sub(b"", chunk)
                    yield self.lines_read, chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.cut = f"the compressed file ends early or is damaged after line {self.lines_read} ({error})"
        except OSError as error:
            raise UsageError(f"{self.name}: {error.strerror or error}") from error

    def _open(self) -> IO[bytes]:
        if self._given is not None:
            raw: Any = self._given
        else:
            raw = once_only(self.name) or open(self.name, "rb")  # noqa: SIM115 - closed by the caller's with
        buffered = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
        head = buffered.peek(4)[:4]
        if head[:2] == b"\x1f\x8b":
            return io.BufferedReader(gzip.GzipFile(fileobj=buffered))
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return io.BufferedReader(_Utf16(buffered))
        return buffered


def _is_wanted(raw: bytes) -> bool:
    for word in WANTED:  # noqa: SIM110 - any() takes half as long again, and this runs on every line
        if word in raw:
            return True
    return False


class _Utf16(io.RawIOBase):
    """UTF-16 (what PowerShell's ``>`` writes) seen as UTF-8."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(raw, encoding="utf-16", errors="replace", newline="")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = self._text.read(16384).encode("utf-8", "replace")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _split(number: int, raw: bytes) -> Iterator[LogLine]:
    """One raw line as lines: JSON records may hold several, progress bars leave carriage returns."""
    text = raw.replace(b"\0", b"").decode("utf-8", "replace").rstrip("\r\n")
    text = _ANSI.sub("", text).lstrip("\ufeff")
    for piece in re.split(r"[\r\n]+", text) if "\r" in text else (text,):
        line = _unwrap(number, piece)
        for message in re.split(r"[\r\n]+", line.text) if "\n" in line.text else (line.text,):
            if message:
                yield line if message is line.text else _unwrap(number, message, outer=line)


def _unwrap(number: int, text: str, *, outer: LogLine | None = None) -> LogLine:
    """Take the wrappers off one line, outermost first; what they say of time and origin is kept."""
    source, process, level = (outer.source, outer.process, outer.level) if outer else ("", "", "")
    moment, clock = (outer.moment, outer.clock) if outer else (None, None)
    for _ in range(6):
        if text.startswith("{") and (record := _read_json(text)):
            text, source, when = record[0], record[1] or source, record[2]
            moment, clock = (when, "zone") if when is not None else (moment, clock)
            continue
        for pattern in (_CRI, _SGLANG, _LEVEL, _ISO, _SYSLOG, _UNIT, _POD, _TAG, _COMPOSE):
            if pattern is _UNIT and clock is None:
                continue
            found = pattern.match(text)
            if found:
                break
        else:
            break
        groups = found.groupdict()
        text = text[found.end() :]
        source = groups.get("unit") or source
        process = (groups.get("process") or "").strip() or process
        level = groups.get("level") or level
        if groups.get("time") and clock != "zone":
            when, kind = read_moment(groups["time"])
            if when is not None and (clock is None or kind != "no_year"):
                moment, clock = when, kind
    return LogLine(number, text, source, process, level, moment, clock)


def _read_json(text: str) -> tuple[str, str, float | None] | None:
    """Message, origin and Unix time of a JSON log record; None where it is not one."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = next((record[key] for key in _MESSAGE_KEYS if key in record), None)
    if isinstance(message, list):  # journald writes messages with control characters as byte values
        numbers = [b for b in message if isinstance(b, int) and 0 <= b < 256]
        message = bytes(numbers).decode("utf-8", "replace")
    if not isinstance(message, str):
        return None
    unit = next((str(record[key]) for key in _UNIT_KEYS if record.get(key)), "")
    when: float | None = None
    for key in _TIME_KEYS:
        value = record.get(key)
        if key == "__REALTIME_TIMESTAMP" and str(value).isdigit():
            when = int(str(value)) / 1e6
        elif isinstance(value, int | float) and not isinstance(value, bool) and 1e9 < value < 1e10:
            when = float(value)
        elif isinstance(value, str):
            moment, kind = read_moment(value)
            when = moment if kind == "zone" else None
        if when is not None:
            break
    return _ANSI.sub("", message).rstrip("\r\n"), unit, when


def read_moment(text: str) -> tuple[float | None, ClockKind]:
    """Seconds of a written time, and what is known of its clock.

    Without a zone it is read as if UTC; without a year as if in 2000, so that only differences mean
    anything.
    """
    if re.match(r"\d\d-\d\d ", text):
        return _parse("2000-" + text.replace(",", "."), "no_year")
    if re.match(r"[A-Z][a-z]{2} ", text):
        try:
            day = datetime.strptime("2000 " + text[:15], "%Y %b %d %H:%M:%S")
        except ValueError:
            return None, "no_year"
        return day.replace(tzinfo=UTC).timestamp(), "no_year"
    written = re.sub(r" ?(?:Z|UTC)$", "+00:00", text.strip()).replace(",", ".")
    written = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", written)
    written = re.sub(r"(\.\d{6})\d+", r"\1", written)
    zoned = bool(re.search(r"[+-]\d\d:\d\d$", written))
    return _parse(written, "zone" if zoned else "no_zone")


def _parse(text: str, kind: ClockKind) -> tuple[float | None, ClockKind]:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None, kind
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), kind
