"""A small sample of the fuzz run, and what the large one found."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from auditor.engine_logs import scan_log
from auditor.entry import run
from auditor.model import EvidenceError, dump_json
from auditor.saved import window_from_json
from auditor.sources.exposition import parse_page
from tests.security.fuzz import READERS, fuzz, mutate
from tests.security.seeds import SEEDS, reports, windows

SAMPLE = {"page": 600, "premises": 100, "log": 150, "window": 400, "report": 200, "page-command": 8,
          "window-command": 8, "report-command": 6}  # fmt: skip


@pytest.mark.parametrize("kind", list(READERS))
def test_a_sample_of_each_kind(kind: str) -> None:
    assert [f"{found.number}: {found.trace}" for found in fuzz(kind, SAMPLE[kind], seed=0)] == []


@pytest.mark.parametrize("kind", list(READERS))
def test_good_inputs_are_taken(kind: str, tmp_path: Path) -> None:
    """The seeds are no rubbish: every reader accepts them, so that a fuzz run gets past the first line."""
    for seed in SEEDS[kind]():
        READERS[kind](seed, tmp_path / "input")


def test_the_dice_decide_alone() -> None:
    import random

    assert mutate("page", random.Random("x")) == mutate("page", random.Random("x"))
    assert len({mutate("page", random.Random(n)) for n in range(50)}) > 40


def test_a_reader_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes, path: Path) -> None:
        raise KeyError("x")

    monkeypatch.setitem(READERS, "page", broken)
    assert len(list(fuzz("page", 3, seed=0))) == 3


# --------------------------------------------------------------------------- what it found


@pytest.mark.parametrize("digits", [25, 400, 5000])
def test_a_log_with_a_number_of_thousands_of_digits(digits: int, tmp_path: Path) -> None:
    """Python refuses to read whole numbers of more than 4,300 digits, and no float holds 400."""
    log = SEEDS["log"]()[0].replace(b"1,110,255", b"9" * digits).replace(b"768000", b"9" * digits)
    (tmp_path / "engine.log").write_bytes(log)
    scan = scan_log(tmp_path / "engine.log")
    assert all(setting.value != float("inf") for setting in scan.settings.values())
    assert run(["boots", str(tmp_path / "engine.log")]) in (0, 3)


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(windows()[0])
    return document


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("window", "seconds"), "60", "seconds is str"),
        (("window", "kind"), "forever", "kind is str, not one of lifetime"),
        (("window", "start"), 1e308, "1e+308 is no moment"),
        (("window", "coverage"), True, "coverage is bool"),
        (("window", "warnings"), [1], "warnings[0] is int"),
        (("targets", 0, "state"), 0.5, "targets[0].state is float"),
        (("targets", 0, "engine"), ["vllm"], "targets[0].engine is list"),
        (("targets", 0, "times"), [0, 1e300], "is no moment"),
        (("targets", 0, "helps"), {"x": 1}, "helps.x is int"),
        (("settings",), {"budget": {"value": [], "source": "page"}}, "settings.budget.value is list"),
    ],
)
def test_a_window_with_a_part_of_another_type(path: tuple[Any, ...], value: Any, said: str) -> None:
    document = _document()
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(EvidenceError) as raised:
        window_from_json(document, name="w.json")
    assert said in str(raised.value)


def test_a_window_of_names_that_the_engine_does_not_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = _document()
    document["targets"][0]["form"] = "other:"
    (tmp_path / "w.json").write_text(json.dumps(document))
    assert run(["audit", str(tmp_path / "w.json")]) == 3
    assert "exports nothing under the names other:" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sections", "fleet", "os", "..text", "x.y", 5, ["audit"]])
def test_a_reports_kind_names_no_module_of_ours(
    kind: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"schema": 1, "kind": kind}))
    assert run(["render", str(tmp_path / "r.json")]) == 3
    assert "is no report of ours" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "junit", "prometheus"])
def test_a_report_with_parts_missing_is_refused_in_every_format(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = next(d for r in reports() if (d := json.loads(r))["kind"] == "audit")
    del document["subjects"][0]["audits"]["time-split"]["verdict"]
    (tmp_path / "r.json").write_text(json.dumps(document))
    assert run(["render", str(tmp_path / "r.json"), "--as", form]) == 3
    said = capsys.readouterr().err
    assert "is no whole report" in said
    assert "Traceback" not in said


def test_json_holds_no_character_that_turns_a_screen_round_and_reads_back_the_same() -> None:
    text = "".join(map(chr, (0x1B, 0x7F, 0x9B, 0x200B, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xD800, 0xFFFF))) + "é\U0001f600"
    written = dump_json({"label": text})
    assert json.loads(written) == {"label": text}
    assert [c for c in written if ord(c) > 126] == ["é", "\U0001f600"]


@pytest.mark.parametrize("number", ["9" * 200_000 + "x", "." * 200_000, "9." * 100_000, "1e" + "9" * 200_000 + "x"])
def test_a_number_that_never_ends_takes_no_time(number: str) -> None:
    """The pattern of a number once tried every way to part a run of digits: minutes for one line."""
    begun = time.process_time()
    with pytest.raises(EvidenceError):
        parse_page(f"vllm:num_requests_running {number}\n".encode())
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("figure", ["9.................8", ".", "1.2.3", "9." * 5000])
def test_a_log_with_a_figure_of_many_points(figure: str, tmp_path: Path) -> None:
    for seed in SEEDS["log"]()[:15]:
        text = re.sub(rb"\d+\.\d+(?= ?Gi?B)", figure.encode(), seed)
        (tmp_path / "engine.log").write_bytes(text)
        assert scan_log(tmp_path / "engine.log").lines


@pytest.mark.parametrize("stamp", ["9" * 400, "-" + "9" * 400])
def test_a_timestamp_that_no_float_holds(stamp: str) -> None:
    """prometheus-client divides it and fails with another error than for what is no number."""
    with pytest.raises(EvidenceError, match="Line 1 is not of a metrics page"):
        parse_page(f'{{"x"}} 1 {stamp}\n'.encode())


@pytest.mark.parametrize(
    ("old", "new"), [(b"'max_model_len': 768000", b"'max_model_len': 1e999"), (b"768,000 tokens per", b"0 tokens per")]
)
def test_a_log_with_an_infinite_or_empty_context(old: bytes, new: bytes, tmp_path: Path) -> None:
    seed = SEEDS["log"]()[0]
    assert old in seed
    (tmp_path / "engine.log").write_bytes(seed.replace(old, new))
    assert run(["boots", str(tmp_path / "engine.log"), "--predict", "budget=12288"]) == 0
