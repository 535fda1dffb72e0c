"""What collectors, terminals and editors do to a log must not change what is read from it."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.engine_logs import scan_log
from auditor.engine_logs.lines import LINE_LIMIT, LogLine, LogReader, read_moment
from auditor.model import UsageError

ARGS = "INFO 11-29 14:57:14 [utils.py:233] non-default args: {'model': 'm', 'max_num_seqs': 32}"
POOL = "INFO 11-29 14:57:33 [kv_cache_utils.py:1087] GPU KV cache size: 5,120 tokens"
UP = "INFO 11-29 14:57:34 [core.py:210] init engine (profile, create kv cache, warmup model) took 0.06 seconds"
STATS = (
    "INFO 11-29 14:57:44 [loggers.py:127] Engine 000: Avg prompt throughput: 557.1 tokens/s, Avg generation "
    "throughput: 153.3 tokens/s, Running: 3 reqs, Waiting: 9 reqs, GPU KV cache usage: 84.6%, Prefix cache hit "
    "rate: 43.3%"
)
LINES = (ARGS, POOL, UP, STATS)
# 2025-11-29T14:57:44Z, by `date -u -d 2025-11-29T14:57:44Z +%s`
AT = 1764428264


def lines_of(data: bytes) -> list[LogLine]:
    return list(LogReader("x.log", stream=io.BytesIO(data)))


WRAPPERS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "carriage returns": lambda s: s + "\r",
    "colours": lambda s: "\x1b[1;36m(APIServer pid=7)\x1b[0;0m " + s,
    "colours, escape lost": lambda s: "[1;36m(APIServer pid=7)[0;0m " + s,
    "colours, as rsyslog writes them": lambda s: "#033[1;36m(APIServer pid=7)#033[0;0m " + s,
    "docker logs -t": lambda s: "2025-11-29T14:57:44.123456789Z " + s,
    "kubernetes": lambda s: "2025-11-29T14:57:44.123456789+00:00 stderr F " + s,
    "kubectl --prefix": lambda s: "[pod/vllm-0/server] " + s,
    "kubectl --prefix --timestamps": lambda s: "[pod/vllm-0/server] 2025-11-29T14:57:44.1Z " + s,
    "compose": lambda s: "vllm-1  | " + s,
    "journald short": lambda s: "Nov 29 14:57:44 gpu01 vllm[4711]: " + s,
    "journald iso": lambda s: "2025-11-29T14:57:44+0000 gpu01 vllm[4711]: " + s,
    "docker json-file": lambda s: json.dumps({"log": s + "\n", "stream": "stderr", "time": "2025-11-29T14:57:44.1Z"}),
    "journald json": lambda s: json.dumps(
        {"MESSAGE": s, "_SYSTEMD_UNIT": "vllm.service", "__REALTIME_TIMESTAMP": "1764428264000000"}
    ),
    "journald json, bytes": lambda s: json.dumps({"MESSAGE": list(("\x1b[1m" + s + "\x1b[0m").encode())}),
    "json logger": lambda s: json.dumps({"ts": AT, "level": "info", "msg": s}),
    "docker in journald": lambda s: "Nov 29 14:57:44 gpu01 dockerd[1]: 2025-11-29T14:57:44Z (APIServer pid=1) " + s,
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_change_nothing(wrap: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("\n".join(wrap(line) for line in LINES) + "\n")
    scan = scan_log(path)
    [boot] = scan.boots
    assert (boot.state, boot.kv_pool_tokens, boot.settings["seats"].value) == ("started", 5120, 32)
    assert boot.settings["seats"].source == "boot log line 1"
    [record] = scan.figures.records
    assert (record.prompt_tok_s, record.running, record.kv_usage, record.hit_rate) == (557.1, 3, 0.846, 0.433)
    assert record.line == 4


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("plain", False),
        ("journald short", False),
        ("docker logs -t", True),
        ("kubernetes", True),
        ("journald iso", True),
        ("docker json-file", True),
        ("journald json", True),
        ("json logger", True),
        ("docker in journald", True),
    ],
)
def test_time_is_unix_only_with_year_and_zone(name: str, zone: bool, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(WRAPPERS[name](STATS) + "\n")
    [record] = scan_log(path).figures.records
    if zone:
        assert record.time == pytest.approx(AT, abs=0.2)
    else:
        assert record.time is None
        assert record.clock == "no_year"
        assert record.moment is not None


@pytest.mark.parametrize(
    ("text", "seconds", "kind"),
    [
        ("2025-11-29T14:57:44Z", AT, "zone"),
        ("2025-11-29T15:57:44+01:00", AT, "zone"),
        ("2025-11-29T15:57:44+0100", AT, "zone"),
        ("2025-11-29 14:57:44,500", AT + 0.5, "no_zone"),
        ("2025-11-29T14:57:44.123456789Z", AT + 0.123456, "zone"),
        ("2025-13-29T14:57:44Z", None, "zone"),
    ],
)
def test_read_moment(text: str, seconds: float | None, kind: str) -> None:
    moment, found = read_moment(text)
    assert found == kind
    assert moment is None if seconds is None else moment == pytest.approx(seconds, abs=1e-5)


def test_months_and_days_without_a_year_still_subtract() -> None:
    first, second = read_moment("02-28 23:59:50")[0], read_moment("Feb 29 00:00:10")[0]
    assert first is not None
    assert second is not None
    assert second - first == 20


def test_kubernetes_partial_lines_are_joined() -> None:
    head, tail = STATS[:60], STATS[60:]
    data = (
        f"2025-11-29T14:57:44.1Z stdout P {head}\n"
        "2025-11-29T14:57:44.1Z stderr F INFO 11-29 14:57:33 GPU KV cache size: 7 tokens\n"
        f"2025-11-29T14:57:44.1Z stdout F {tail}\n"
    ).encode()
    texts = [line.text for line in lines_of(data)]
    assert any("Avg prompt throughput: 557.1 tokens/s" in t and t.endswith("43.3%") for t in texts)
    assert any("GPU KV cache size: 7 tokens" in t for t in texts)


def test_gzip_by_content_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(gzip.compress(("\n".join(LINES) + "\n").encode()))
    assert scan_log(path).boots[0].kv_pool_tokens == 5120


def test_cut_gzip_keeps_what_came_before_and_says_so(tmp_path: Path) -> None:
    noise = "".join(f"INFO token line {zlib.crc32(str(i).encode())}\n" for i in range(5000))
    whole = gzip.compress(("\n".join(LINES) + "\n" + noise).encode())
    path = tmp_path / "server.log.gz"
    path.write_bytes(whole[: len(whole) // 2])
    scan = scan_log(path)
    assert scan.boots[0].kv_pool_tokens == 5120
    assert scan.cut is not None
    assert "ends early" in scan.cut


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_encodings(encoding: str, tmp_path: Path) -> None:
    text = "\r\n".join(LINES) + "\r\n"
    if encoding.endswith(("le", "be")):
        text = "\ufeff" + text
    path = tmp_path / "server.log"
    path.write_bytes(text.encode(encoding))
    assert scan_log(path).boots[0].kv_pool_tokens == 5120


def test_progress_bars_and_holes_do_not_hide_a_line() -> None:
    data = b"\0\0\0\0Loading:  10%|#  \rLoading: 100%|###\r" + POOL.encode() + b"\n"
    assert [line.text for line in lines_of(data) if "KV" in line.text] == ["GPU KV cache size: 5,120 tokens"]


def test_a_line_without_end_is_cut_not_loaded() -> None:
    data = b"token " * (LINE_LIMIT // 3) + b"\n" + POOL.encode() + b"\n"
    reader = LogReader("x", stream=io.BytesIO(data))
    lines = list(reader)
    assert reader.lines_read == 2
    assert len(lines[0].text) <= LINE_LIMIT
    assert lines[-1].number == 2


def test_a_number_at_the_very_end_of_a_cut_log_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "[2025-05-20 08:01:00 TP0] Decode batch. #running-req: 7, gen throughput (token/s): 98.40, #queue-req: 1"
    )
    [record] = scan_log(path).figures.records
    assert (record.running, record.generation_tok_s, record.waiting) == (7, 98.4, None)
    path.write_text(STATS[: STATS.index("4.6%")])
    [record] = scan_log(path).figures.records
    assert (record.waiting, record.kv_usage) == (9, None)


def test_missing_file_and_folder_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.log"):
        scan_log(tmp_path / "nowhere.log")
    with pytest.raises(UsageError):
        scan_log(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"<html><body>502</body></html>\n", b"\xff\x00\xfe garbage " * 50])
def test_no_log_at_all_is_an_empty_scan(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    scan = scan_log(path)
    assert scan.is_empty
    assert scan.boots == ()
    assert scan.figures.records == ()
    assert scan.settings == {}


@pytest.mark.parametrize(
    "data", ["{", '{"a": ' * 5000, '{"MESSAGE": 3, "x": "token"}', '{"log": "token", "time": "never"}']
)
def test_odd_json_is_a_plain_line(data: str) -> None:
    for line in lines_of((data + " token\n").encode()):
        assert line.moment is None
