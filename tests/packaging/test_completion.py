"""Shell completion: bash as a user has it, and the answers that zsh and fish get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.entry import run
from auditor.explaining import known_names

ROOT = Path(__file__).resolve().parents[2]


def answers(shell: str, words: str, number: int) -> str:
    """What the program tells a shell that asks it to complete a word."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("AUDITOR_")}
    env |= {"_AUDITOR_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    if shell == "fish":
        env["COMP_CWORD"] = words.split(" ")[-1]
    done = subprocess.run([sys.executable, "-m", "auditor"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_AUDITOR_COMPLETE={shell}_complete" in script
    assert "%(" not in script


def test_an_unknown_shell_is_the_callers_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err


def test_commands_options_and_names() -> None:
    assert "plain,nightly\n" in answers("bash", "auditor ni", 1)
    assert "plain,--premises\n" in answers("bash", "auditor gate --prem", 2)
    assert "plain,rank\n" in answers("bash", "auditor audit --by r", 3)
    assert "plain,junit\n" in answers("bash", "auditor demo --as j", 3)
    explained = answers("bash", "auditor explain pre", 2).splitlines()
    assert explained == [f"plain,{name}" for name in known_names() if name.startswith("pre")]
    assert "file," in answers("bash", "auditor audit fix", 2)


def test_zsh_and_fish_get_them_too() -> None:
    assert "plain\nnightly\n" in answers("zsh", "auditor ni", 1)
    assert "plain,nightly" in answers("fish", "auditor ni", 1)


def test_in_a_real_bash(tmp_path: Path) -> None:
    """The script is loaded, and bash's own machinery is asked to complete a line."""
    (tmp_path / "auditor").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m auditor "$@"\n', encoding="utf-8")
    (tmp_path / "auditor").chmod(0o755)
    script = (
        'eval "$(auditor completion bash)"\n'
        "COMP_WORDS=(auditor explain time-s) COMP_CWORD=2\n"
        "_auditor_completion auditor\n"
        'echo "${COMPREPLY[@]}"\n'
        "complete -p auditor\n"
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "time-split"
    assert "-F _auditor_completion auditor" in done.stdout
