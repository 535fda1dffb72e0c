# ruff: noqa: E501  (lists of words)
"""Good inputs to start from, small, and the words that are put into them."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
Seeds = tuple[bytes, ...]

NUMBERS = (
    b"0", b"-1", b"1e308", b"1e999", b"-1e-999", b"NaN", b"+Inf", b"-Inf", b"Infinity", b"nan", b"0x10", b"1_0", b"00",
    b"9" * 40, b"9" * 5000, b"1.7976931348623157e308", b"4.9e-324", b"\xd9\xa3", b"", b"true", b"null", b"1e",
)  # fmt: skip
HARMFUL = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\x1b[31m", b"\xe2\x80\xae", b"\r", b"\n", b"\\", b'"', b"'", b"<script>", b"{{", b"]]>",
    b"::error::", b"=cmd()", b"../../etc/passwd", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"A" * 3000, b"%s%n", b"\x1f\x8b\x08",
)  # fmt: skip


def _lines(path: Path, *, wanted: tuple[str, ...], most: int) -> bytes:
    """The lines of a page that hold one of these words: a small page of a real server."""
    kept = [line for line in _text(path).splitlines() if any(word in line for word in wanted)][:most]
    return ("\n".join(kept) + "\n").encode()


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@lru_cache(maxsize=1)
def pages() -> Seeds:
    core = (
        "request_prefill_time",
        "request_decode_time",
        "request_success",
        "prompt_tokens",
        "generation_tokens",
        "num_requests",
    )
    found = [
        _lines(FIXTURES / "pages" / name, wanted=core, most=60)
        for name in ("vllm-0.32.0.prom", "vllm-0.11.0.prom", "sglang-0.5.23.prom", "llamacpp-11434.prom")
    ]
    found.append(_lines(FIXTURES / "pages" / "rust-front-end.openmetrics.txt", wanted=core, most=40) + b"# EOF\n")
    found.append((FIXTURES / "pages" / "unusual-forms.prom").read_bytes())
    return (*found, gzip.compress(found[0], mtime=0))


@lru_cache(maxsize=1)
def premises() -> Seeds:
    page = (FIXTURES.parent / "docs" / "premises.md").read_text(encoding="utf-8")
    shown = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    return ((FIXTURES / "premises" / "premises.yaml").read_bytes(), shown.encode())


@lru_cache(maxsize=1)
def logs() -> Seeds:
    folder = FIXTURES / "boot_logs"
    found = [path.read_bytes() for path in sorted((folder / "constructed").glob("*.log"))]
    found += [path.read_bytes() for path in sorted((folder / "cases").glob("*.log"))]
    real = (folder / "vllm-0.32.0" / "h-spec-ngram.log").read_bytes().splitlines(keepends=True)
    return (*found, b"".join(real[:25]), b"".join(real[-12:]), gzip.compress(found[0], mtime=0))


@lru_cache(maxsize=1)
def windows() -> Seeds:
    """A small window of one server, two scrapes; and the same of a log."""
    from auditor.collect import Inputs, collect
    from auditor.saved import window_to_json

    page = pages()[0]
    with tempfile.TemporaryDirectory() as name:
        before, after = Path(name) / "before.prom", Path(name) / "after.prom"
        before.write_bytes(page)
        after.write_bytes(page)
        pair = collect(Inputs(targets=(str(after),), before=str(before), seconds=60.0))
        log = Path(name) / "engine.log"
        log.write_bytes(logs()[-2])
        running = collect(Inputs(targets=(str(log),)))
    return tuple(json.dumps(window_to_json(window, tool="test")).encode() for window in (pair, running))


@lru_cache(maxsize=1)
def reports() -> Seeds:
    return tuple(path.read_bytes() for path in sorted((FIXTURES / "reports" / "schema-1").glob("*.json")))


def small_reports() -> Seeds:
    return tuple(report for report in reports() if len(report) < 15_000)


SEEDS: dict[str, Callable[[], Seeds]] = {
    "page": pages,
    "premises": premises,
    "log": logs,
    "window": windows,
    "report": small_reports,
    "page-command": pages,
    "window-command": windows,
    "report-command": reports,
}
_PAGE = (
    *NUMBERS, *HARMFUL, b"# EOF\n", b"# TYPE vllm:prompt_tokens_total counter\n", b"# HELP x \\\n", b"{", b"}", b",", b'le="', b'le="+Inf"',
    b" 1700000000000", b"{{}}", b'{a="b",a="c"} 1\n', b"vllm:", b"sglang:", b"<html>", b'model_name="\\x"',
)  # fmt: skip
_YAML = (
    *NUMBERS, *HARMFUL, b"&a ", b"*a", b"!!python/object/apply:os.system [id]", b"---\n", b": ", b"- ", b"[", b"{", b"? ", b"| \n", b"> \n",
    b"<<: ", b"2026-13-45", b"10%", b"2.5s", b"at_most: ", b"reading: ", b"between: [1, 2]", b"\t", b"[" * 50,
)  # fmt: skip
_LOG = (
    *NUMBERS, *HARMFUL, b"GPU KV cache size: 1 tokens", b"non-default args: {", b"Maximum concurrency for ", b"(" * 200, b"[" * 200,
    b"{'a':" * 100, b"Engine 000: Avg prompt throughput: 1.0 tokens/s, ", b"server_args=ServerArgs(", b"GiB", b"Decode batch.",
)  # fmt: skip
_JSON = (
    *NUMBERS, *HARMFUL, b"{", b"}", b"[", b"]", b"[" * 2000, b'{"a":' * 2000, b"null", b"[]", b"{}", b'""', b'"x"', b"true", b"1e400", b"-0",
    b'"kind"', b'"schema": 2', b'"measured"', b'"bounded"', b"\\ud800", b'"NaN"', b'"__class__"', b"[null]", b'{"a": 1}',
)  # fmt: skip
WORDS: dict[str, tuple[bytes, ...]] = {
    "page": _PAGE,
    "premises": _YAML,
    "log": _LOG,
    "window": _JSON,
    "report": _JSON,
    "page-command": _PAGE,
    "window-command": _JSON,
    "report-command": _JSON,
}


def _texts(seeds: Callable[[], Seeds]) -> Callable[[], tuple[str, ...]]:
    return lambda: tuple(seed.decode() for seed in seeds())


TREES = {
    "window": _texts(windows),
    "window-command": _texts(windows),
    "report": _texts(small_reports),
    "report-command": _texts(small_reports),
}
"""Kinds whose inputs are JSON, which stays JSON in most of them."""
VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 2, 1e308, -1e-300, 10**30, 0.5, "", "x", "NaN", "+Inf", "1", "\x1b[31m\u202e<b>", "\ud800", [], {}, [None],
    [[]], {"a": 1}, [1, 2], ["a"], {"value": None}, "vllm", "measured", "bounded", "counter", "broken", "A" * 500,
)  # fmt: skip
