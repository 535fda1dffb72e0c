"""The Dockerfile by rules, for no Docker engine may be at hand: small, pinned, not root, and complete."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.packaging.building import ROOT, build, project

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(word, rest) for word, rest in found]


def stages() -> list[list[Instruction]]:
    out: list[list[Instruction]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            out.append([])
        out[-1].append(instruction)
    return out


def values(stage: list[Instruction], word: str) -> list[str]:
    return [rest for w, rest in stage if w == word]


def test_only_plain_instructions() -> None:
    # ADD fetches addresses and unpacks archives; ARG and ENV end up in the image's history; SHELL hides what runs.
    assert {w for w, _ in instructions()} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}


def test_base_images_are_small_pinned_and_of_a_tested_python() -> None:
    bases = [rest.split()[0] for w, rest in instructions() if w == "FROM"]
    assert len(set(bases)) == 1
    for base in bases:
        match = re.fullmatch(r"python:(\d+\.\d+)-slim-[a-z]+", base)
        assert match, base
        assert f"Programming Language :: Python :: {match[1]}" in project()["classifiers"]


def test_the_last_stage_is_not_root_and_holds_no_build_tools() -> None:
    last = stages()[-1]
    (user,) = values(last, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert values(last, "RUN") == []
    assert all(copy.startswith("--from=build ") for copy in values(last, "COPY"))
    words = [w for w, _ in last]
    assert words.index("USER") > max(i for i, w in enumerate(words) if w in ("COPY", "WORKDIR"))


def test_it_runs_the_program_and_no_shell() -> None:
    last = stages()[-1]
    assert json.loads(values(last, "ENTRYPOINT")[0]) == ["auditor"]
    assert json.loads(values(last, "CMD")[0]) == ["--help"]


def test_installs_are_locked_and_leave_no_cache() -> None:
    (run,) = values(stages()[0], "RUN")
    install = next(part for part in run.split("&&") if "pip install" in part)
    assert "--constraint requirements.lock" in install
    assert "--no-cache-dir" in install
    assert not re.search(r"curl|wget|apt|\bsudo\b|https?:", run)


def test_what_it_copies_builds_the_same_wheel(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for copy in values(stages()[0], "COPY"):
        *names, target = copy.split()
        for name in names:
            to = source / target / ("" if (ROOT / name).is_dir() else name)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, to)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here, there = build("wheel", tmp_path / "a"), build("wheel", tmp_path / "b", source=source)
    assert here.read_bytes() == there.read_bytes()


def test_the_context_holds_only_what_is_copied() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignore[0] == "*"
    copied = {name for copy in values(stages()[0], "COPY") for name in copy.split()[:-1]}
    assert {line[1:] for line in ignore if line.startswith("!")} == copied
