"""Whatever the bytes, a scan ends, claims nothing odd, and writes plain JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.engine_logs import scan_log

LOGS = Path(__file__).parents[2] / "fixtures" / "boot_logs"
SOURCES = [path.read_bytes() for path in sorted((LOGS / "constructed").glob("*.log"))]
SOURCES += [(LOGS / "cases" / name).read_bytes() for name in ("10.log", "11.log", "12.log")]
LINES = [line for source in SOURCES for line in source.splitlines()]


def scan(data: bytes) -> None:
    found = scan_log("x.log", stream=io.BytesIO(data))
    for boot in found.boots:
        text = json.dumps(boot.to_json(), allow_nan=False)
        assert "sk-not-for-a-report" not in text
        assert boot.kv_pool_tokens is None or boot.kv_pool_tokens > 0
        assert 1 <= boot.line <= found.lines
    json.dumps(found.figures.to_json(), allow_nan=False)


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_bytes(data: bytes) -> None:
    scan(data)
    scan(b"\x1f\x8b" + data)


@given(st.lists(st.sampled_from(LINES), max_size=25), st.sampled_from([b"\n", b"\r\n", b"\r"]))
@settings(max_examples=120, deadline=None)
def test_lines_of_all_engines_in_any_order(lines: list[bytes], newline: bytes) -> None:
    scan(newline.join(lines) + newline)


@given(st.sampled_from(SOURCES), st.integers(0, 4000), st.integers(1, 60), st.binary(max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_torn_log(source: bytes, start: int, length: int, junk: bytes) -> None:
    scan(source[:start] + junk + source[start + length :])
