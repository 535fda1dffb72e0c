"""Shell completion: bash, zsh and fish as a user has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.entry import run
from auditor.explaining import known_names
from tests.conftest import need_program

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


@pytest.fixture
def shell_environment(tmp_path: Path) -> dict[str, str]:
    """A home of its own, and ``auditor`` on the path."""
    program = tmp_path / "bin" / "auditor"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m auditor "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def test_in_a_real_bash(shell_environment: dict[str, str]) -> None:
    """The script is loaded, and bash's own machinery is asked to complete a line."""
    script = (
        'eval "$(auditor completion bash)"\n'
        "COMP_WORDS=(auditor explain time-s) COMP_CWORD=2\n"
        "_auditor_completion auditor\n"
        'echo "${COMPREPLY[@]}"\n'
        "complete -p auditor\n"
    )
    done = subprocess.run(["bash", "--norc", "-c", script], env=shell_environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "time-split"
    assert "-F _auditor_completion auditor" in done.stdout


ZSH = """
zmodload zsh/zpty
zpty z "PS1= zsh -f -i"
zpty -w z 'autoload -Uz compinit; compinit -u -D; eval "$(auditor completion zsh)"; print REA""DY'
zpty -r z line '*READY*'
zpty -w -n z $'auditor explain time-s\t'
zpty -r z line '*time-split*'
print -r -- "$line"
zpty -d z
"""
"""Types the beginning of a word and the tabulator into an interactive zsh, as a person would."""


@pytest.mark.live
def test_in_a_real_zsh(shell_environment: dict[str, str]) -> None:
    command = [need_program("zsh"), "-f", "-c", ZSH]
    done = subprocess.run(command, env=shell_environment, capture_output=True, text=True, timeout=60)
    assert "auditor explain time-split" in done.stdout


@pytest.mark.live
def test_in_a_real_fish(shell_environment: dict[str, str]) -> None:
    """The script lies where the help says, and fish finds it there by itself."""
    folder = Path(shell_environment["XDG_CONFIG_HOME"]) / "fish" / "completions"
    folder.mkdir(parents=True)
    script = subprocess.run(["auditor", "completion", "fish"], env=shell_environment, capture_output=True, check=True)
    (folder / "auditor.fish").write_bytes(script.stdout)
    ask = 'complete -C "auditor explain time-s"; complete -C "auditor gate --prem"'
    done = subprocess.run(
        [need_program("fish"), "-c", ask], env=shell_environment, capture_output=True, text=True, timeout=60
    )
    words = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert words == ["time-split", "--premises"]
