"""Generated files are up to date, and the check would see it if they were not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import generated


def test_every_generated_file_is_up_to_date() -> None:
    assert [str(path.relative_to(generated.ROOT)) for path, _, _ in generated.differences()] == []


def test_a_difference_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    monkeypatch.setattr(generated, "GENERATED", (lambda: {"docs/a.txt": "new\n"},))
    monkeypatch.setattr("sys.argv", ["generated", "--check"])
    assert generated.main() == 1
    assert "docs/a.txt: out of date" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    monkeypatch.setattr("sys.argv", ["generated"])
    assert generated.main() == 0
    assert (tmp_path / "docs" / "a.txt").read_text() == "new\n"
    monkeypatch.setattr("sys.argv", ["generated", "--check"])
    assert generated.main() == 0
