"""Options that would be left unread, times and numbers that cannot be meant, and hints, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.cli.inputs import moment
from tests.cli.support import FIXTURES, A, auditor, in_turn, process, serve

PAIR = ("--before", A / "before.prom", A / "after.prom")
PROMETHEUS = ("--prometheus", "http://127.0.0.1:1", "--window", "1h")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((A / "after.prom", "--match", '{job="x"}'), "goes with --prometheus"),
        ((*PAIR, "--end", "1796000000"), "goes with --prometheus"),
        (("http://127.0.0.1:1", "--window", "9h", "--exact"), "goes with --prometheus"),
        ((A / "after.prom", "--expand-dns"), "no target is one"),
        ((*PAIR, "--expand-dns"), "no target is one"),
        (("--series", *PAIR[1:], "--expand-dns"), "no target is one"),
        ((*PROMETHEUS, "--expand-dns"), "no target is one"),
        ((*PROMETHEUS, "--seconds", "60"), "the length is --window"),
        (("http://127.0.0.1:1", "--seconds", "60"), "--window 60s"),
        (("http://127.0.0.1:1", "--window", "9h", "--seconds", "60"), "--window 60s"),
        (("--series", *PAIR[1:], "--every", "2s", "--seconds", "60"), "tell it already"),
        (("--series", *PAIR[1:], "--window", "60s"), "--window is for live servers"),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["audit", "collect"])
def test_an_option_that_would_be_left_unread(command: str, argv: tuple[object, ...], words: str) -> None:
    found = auditor(command, *argv)
    assert found.code == 2, found.err
    assert words in found.err
    assert found.out == ""


def test_a_saved_window_has_its_own_length(tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    assert auditor("collect", *PAIR, "--seconds", "7.5", "-o", window).code == 0
    found = auditor("audit", window, "--seconds", "60")
    assert found.code == 2
    assert "a saved window has its own length" in found.err


def test_seconds_stay_right_for_pages_and_logs() -> None:
    log = FIXTURES / "boot_logs" / "vllm-0.11.0" / "p-preemption.log"
    for where in ((A / "after.prom",), PAIR, ("--series", *PAIR[1:])):
        found = auditor("audit", *where, "--seconds", "60", "--as", "json")
        assert found.code == 0, found.err
        assert found.json["window"]["seconds"] == 60
    assert auditor("audit", log, "--seconds", "60", "--as", "json").json["window"]["kind"] == "series"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((A / "after.prom", "--match", '{job="x"}'), "goes with --prometheus"),
        ((A / "after.prom", "--window", "5m"), "goes with --prometheus"),
        ((A / "after.prom", "--expand-dns"), "no target is one"),
        (("--prometheus", "http://127.0.0.1:1", "--expand-dns"), "live servers"),
    ],
)
def test_the_doctor_leaves_no_option_unread(argv: tuple[object, ...], words: str) -> None:
    found = auditor("doctor", *argv)
    assert found.code == 2
    assert words in found.err
    from_environment = auditor("doctor", A / "after.prom", env={"AUDITOR_WINDOW": "5m"})
    assert from_environment.code == 0, from_environment.err


def test_the_doctor_reads_a_list_from_standard_input_once() -> None:
    with serve(in_turn((A / "after.prom").read_bytes())) as server:
        done = process("doctor", "--targets", "-", "--as", "json", stdin=server.url().encode())
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["targets"]
    assert (found["state"], found["engine"]) == ("recognised", "vllm")


@pytest.mark.parametrize("option", [("--premises", "p.yaml"), ("--baseline", "r.json"), ("--store", "a.db")])
def test_a_starter_file_judges_nothing(option: tuple[str, str]) -> None:
    found = auditor("gate", "--init", *PAIR, *option)
    assert found.code == 2
    assert f"leave {option[0]} away" in found.err


# --------------------------------------------------------------------------- times

BAD_TIMES = ("nan", "inf", "-inf", "1e18", "-1", "-62135596800", "253402300800", "7258118400", "9999-01-01T00:00:00Z",
             "1969-12-31T23:59:59Z", "")  # fmt: skip


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """A command line without its time, and one night kept by it."""
    folder = tmp_path_factory.mktemp("night")
    line = ("nightly", *PAIR, "--seconds", "7.5", "--store", folder / "audits.db", "--out", folder / "out")
    kept = auditor(*line, "--at", "2026-11-29T03:00:00Z", "--insecure")
    assert kept.code == 0, kept.err
    # Both the evidence and the hand-over are asked for with these options.
    assert kept.err.count("certificates are not verified") == 1
    return line


@pytest.mark.parametrize("text", BAD_TIMES)
def test_a_time_at_which_nothing_was_scraped(text: str, night: tuple[object, ...]) -> None:
    store = night[night.index("--store") + 1]
    for line in (
        ("audit", *PROMETHEUS, f"--end={text}"),
        ("queries", f"--end={text}"),
        *(((*night, f"--at={text}"),) if text else ()),
        ("history", "export", "--store", store, f"--since={text}"),
        ("history", "prune", "--store", store, f"--before={text}", "--dry-run"),
    ):
        found = auditor(*line)
        assert found.code == 2, (line, found.err)
        assert "2026-11-29T19:00:00Z" in found.err
        assert found.out == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1796000000.5", 1796000000.5),
        ("2026-11-29T19:00:00Z", 1795978800.0),
        ("2026-11-29T20:00:00+01:00", 1795978800.0),
        ("2026-11-29", 1795910400.0),
        ("2199-12-31T23:59:59Z", 7258118399.0),
    ],
)
def test_times_that_are_times(text: str, seconds: float) -> None:
    assert moment(text) == seconds


@pytest.mark.parametrize("option", ["--window", "--timeout", "--every"])
def test_lengths_that_no_clock_counts(option: str) -> None:
    found = auditor("audit", "http://127.0.0.1:1", option, "99999999999999d")
    assert found.code == 2
    assert "more than a hundred years" in found.err


def test_an_answer_is_not_waited_for_longer_than_a_day() -> None:
    found = auditor("audit", "http://127.0.0.1:1", "--timeout", "30d")
    assert found.code == 2
    assert "24 hours" in found.err


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_distance_that_is_no_number(text: str) -> None:
    found = auditor("audit", *PAIR, "--seconds", text)
    assert found.code == 2
    assert "--seconds" in found.err


def test_times_of_pages_lie_in_the_years_of_scrapes(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text("[1e18, 2e18]")
    found = auditor("audit", "--series", *PAIR[1:], "--times", times)
    assert found.code == 2
    assert "between 1970 and 2200" in found.err


# --------------------------------------------------------------------------- hints


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (("history", "prune", "--keep", "nan"), "auditor history prune --help"),
        (("history", "list", "--stor", "x"), "auditor history list --help"),
        (("history", "lst"), "auditor history --help"),
        (("audit", "--by", "x"), "auditor audit --help"),
    ],
)
def test_a_hint_names_a_command_that_there_is(argv: tuple[str, ...], command: str) -> None:
    found = auditor(*argv)
    assert found.code == 2
    assert f"({command})" in found.err
    assert auditor(*command.split()[1:]).code == 0


def test_a_slip_in_a_commands_name() -> None:
    assert "did you mean audit? See" in auditor("AUDIT").err.replace("  ", " ")
    assert "'qqq'. See" in auditor("qqq").err


# --------------------------------------------------------------------------- compare


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--plan", "10%", "--fail-on", "ttft_seconds:worse:5%"), "give one of them"),
        (("--plan", "10"), "write 10%"),
        (("--plan", "1.5"), "write 1.5%"),
        (("--plan", "nan"), "between 0 and 1000 %"),
        (("--plan", "0%"), "between 0 and 1000 %"),
    ],
)
def test_a_plan_that_would_be_another_one(argv: tuple[str, ...], words: str, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    auditor("audit", *PAIR, "--output", f"json={report}")
    found = auditor("compare", *argv, "--arm", f"a={report}")
    assert found.code == 2
    assert words in found.err
    assert found.out == ""


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), ("0.1", 0.1), ("150%", 1.5)])
def test_a_plan_says_which_change_it_is_for(text: str, share: float, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    auditor("audit", *PAIR, "--output", f"json={report}")
    found = auditor("compare", "--plan", text, "--arm", f"a={report}", "--as", "json")
    assert found.code == 0, found.err
    assert found.json["plan"]["change"] == pytest.approx(share)
