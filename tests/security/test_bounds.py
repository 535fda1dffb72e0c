"""Bombs, redirects, credentials and paths, through whole commands: a sentence, a code, and soon."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from auditor.entry import run
from tests.security.hostile import DEMO, page, serving, write_pair

SECRET = "s3cr3t-value"
FORMATS = ("terminal", "json", "markdown", "html", "junit", "github", "prometheus")


def ends(argv: list[str], code: int, capsys: pytest.CaptureFixture[str], *, within: float = 20.0) -> str:
    """The command ends with this code, soon, and says so in words."""
    begun = time.process_time()
    assert run(argv) == code
    assert time.process_time() - begun < within
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert "internal error" not in shown.err
    return shown.out + shown.err


# --------------------------------------------------------------------------- bombs


def test_gzip_bombs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bomb = gzip.compress(b"\n" * 300_000_000, 9)
    (tmp_path / "bomb.prom.gz").write_bytes(bomb)
    assert "MiB" in ends(["audit", str(tmp_path / "bomb.prom.gz")], 3, capsys)
    with serving(bomb, headers={"Content-Encoding": "gzip"}) as (address, _):
        assert "larger" in ends(["audit", f"http://{address}/metrics"], 3, capsys)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 1, "kind": "audit", "a": ' + "[" * 200_000,
        '{"schema": 1, "kind": "audit", "a": ' + '{"a":' * 200_000,
        '{"schema": 1, "kind": "window", "window": ' + "9" * 200_000 + "}",
        '{"schema": 1, "kind": "window", "window": {"kind": NaN}}',
        '{"schema": ' + "[" * 500 + "]" * 500 + ', "kind": "window"}',
    ],
)
@pytest.mark.parametrize(
    "command", [["audit"], ["render"], ["compare", str(DEMO / "seconds.txt")], ["gate", "--premises"]]
)
def test_json_bombs(text: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bomb.json").write_text(text)
    assert run([*command, str(tmp_path / "bomb.json")]) in (2, 3)
    shown = capsys.readouterr()
    assert "internal error" not in shown.err
    assert shown.err.strip() or shown.out.strip()


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [LAUGHS, "[" * 5000, "- " * 3000, "? " * 3000, "!!python/object/apply:os.system [id]", "premises: !!binary x"],
)
def test_yaml_bombs_in_a_premises_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(text)
    assert "p.yaml:" in ends(["gate", *write_pair(tmp_path, "m"), "--premises", str(tmp_path / "p.yaml")], 2, capsys)


@pytest.mark.parametrize(
    "text",
    [LAUGHS, "[" * 5000, "- " * 3000, "- !!python/object/apply:os.system [id]", "- 2026-13-45", "- targets: [*x]"],
)
def test_yaml_bombs_in_a_list_of_targets(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text(text)
    ends(["audit", "--targets", str(tmp_path / "t.yaml")], 2, capsys)


# --------------------------------------------------------------------------- redirects


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:1/admin",
        "file:///etc/passwd",
        "gopher://127.0.0.1:1/x",
        "//[::1]:1/",
    ],
)
def test_a_redirect_to_elsewhere_is_named_and_not_followed(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(status=302, headers={"Location": target}) as (address, seen):
        said = ends(["audit", f"http://{address}/metrics"], 3, capsys)
        assert len(seen) == 1
    assert "redirect" in said.lower()
    assert "root:" not in said


def test_an_allowed_redirect_brings_no_credentials_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text(SECRET)
    with (
        serving(page("m")) as (there, seen),
        serving(status=302, headers={"Location": f"http://localhost:{there.split(':')[1]}/metrics"}) as (here, _),
    ):
        token = str(tmp_path / "token")
        ends(["audit", f"http://{here}/metrics", "--allow-redirects", "--token-file", token], 0, capsys)
    assert len(seen) == 1
    assert SECRET not in str(seen)


# --------------------------------------------------------------------------- credentials


@pytest.mark.parametrize("status", [200, 401, 500])
def test_no_credential_in_a_report_a_window_or_an_error(
    status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(SECRET + "-token")
    with serving(page("m"), status=status) as (address, seen):
        targets = [f"http://user:{SECRET}@{address}/metrics"]
        given = ["--header", f"X-Scope-OrgID: {SECRET}-header"]
        said = ""
        for form in FORMATS:
            assert run(["audit", *targets, *given, "--as", form]) == (0 if status == 200 else 3)
            shown = capsys.readouterr()
            said += shown.out + shown.err
        assert run(["collect", *targets, *given, "-o", str(tmp_path / "w.json")]) in (0, 3)
        assert run(["doctor", *targets, *given]) in (0, 3)
        assert run(["audit", f"http://{address}/metrics", "--token-file", str(tmp_path / "token")]) in (0, 3)
        shown = capsys.readouterr()
        said += shown.out + shown.err + ((tmp_path / "w.json").read_text() if (tmp_path / "w.json").exists() else "")
    assert SECRET in str(seen) or "Basic" in str(seen)  # they were sent, to whom they belong
    assert SECRET not in said
    assert address in said


# --------------------------------------------------------------------------- paths


def test_an_output_is_written_where_the_caller_says_and_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    pair = write_pair(work, "../../owned")
    monkeypatch.chdir(work)
    ends(["audit", *pair, "--output", "json=../beside.json", "--output", "html=here.html"], 0, capsys)
    made = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert made == {"beside.json", "work/here.html", "work/before.prom", "work/after.prom"}
    assert json.loads((tmp_path / "beside.json").read_text())["subjects"][0]["labels"]["model"] == "../../owned"


def test_an_output_over_a_link_replaces_the_link_and_not_what_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "report.json").symlink_to(tmp_path / "precious")
    ends(["audit", *write_pair(tmp_path, "m"), "--output", f"json={tmp_path / 'report.json'}"], 0, capsys)
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "report.json").is_symlink()
