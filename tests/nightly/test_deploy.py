"""The files in deploy/nightly are what cron, systemd and Kubernetes take, and their command lines are ours."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from auditor.cli.nightly import command
from tests.conftest import need_program

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "nightly"
SCHEMA = json.loads((ROOT / "fixtures" / "schemas" / "kubernetes-1.37.json").read_text())


def parse(arguments: list[str]) -> click.Context:
    """What the command makes of a line, without running it; an option that we do not have is an error."""
    return command.make_context("nightly", list(arguments))


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "kubernetes-cronjob.yaml").read_text()))


def test_the_crontab_line() -> None:
    lines = (FOLDER / "crontab").read_text().splitlines()
    (line,) = [x for x in lines if x and not x.startswith("#") and "=" not in x.split(" ", 1)[0]]
    fields = line.split(None, 5)
    minute, hour, *rest = fields[:5]
    assert (0 <= int(minute) < 60, 0 <= int(hour) < 24, rest) == (True, True, ["*", "*", "*"])
    assert not re.search(r"(?<!\\)%", fields[5]), "cron takes a bare percent sign for the end of the line"
    program, name, *arguments = shlex.split(fields[5])
    assert (program, name) == ("auditor", "nightly")
    values = parse(arguments).params
    assert (values["prometheus"], values["window"], values["fail_on"]) == (
        "http://prometheus:9090",
        86400,
        ("regression",),
    )


@pytest.mark.live
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = need_program("systemd-analyze")
    for name in ("auditor-nightly.service", "auditor-nightly.timer"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    done = subprocess.run(
        [
            program,
            "verify",
            "--man=no",
            str(tmp_path / "auditor-nightly.timer"),
            str(tmp_path / "auditor-nightly.service"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    ours = [line for line in done.stderr.splitlines() if "auditor-nightly" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


@pytest.mark.live
def test_systemd_finds_a_mistake(tmp_path: Path) -> None:
    """The check above can fail."""
    program = need_program("systemd-analyze")
    text = (FOLDER / "auditor-nightly.service").read_text().replace("Type=oneshot", "Type=onceshot")
    (tmp_path / "auditor-nightly.service").write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / "auditor-nightly.service")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "auditor-nightly.service" in done.stderr


@pytest.mark.live
def test_the_timer_means_half_past_three_utc() -> None:
    program = need_program("systemd-analyze")
    found = re.search(r"^OnCalendar=(.*)$", (FOLDER / "auditor-nightly.timer").read_text(), re.M)
    assert found is not None
    done = subprocess.run([program, "calendar", found[1]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Normalized form: *-*-* 03:30:00 UTC" in done.stdout


def test_the_service_line_is_ours() -> None:
    found = re.search(
        r"^ExecStart=/usr/bin/env auditor nightly (.*)$", (FOLDER / "auditor-nightly.service").read_text(), re.M
    )
    assert found is not None
    values = parse(shlex.split(found[1])).params
    assert values["store"] == "%S/auditor/audits.db"


def test_kubernetes_takes_the_manifests() -> None:
    validator = validator_for(SCHEMA, default=Draft202012Validator)(SCHEMA)
    kinds = []
    for manifest in manifests():
        errors = [f"{manifest['kind']}: {e.json_path}: {e.message[:200]}" for e in validator.iter_errors(manifest)]
        assert errors == []
        kinds.append(manifest["kind"])
    assert kinds == ["ConfigMap", "PersistentVolumeClaim", "CronJob"]
    broken = manifests()[-1]
    broken["spec"]["scedule"] = broken["spec"].pop("schedule")
    assert list(validator.iter_errors(broken)), "the schema lets a misspelt field pass"


def test_the_cronjob_fits_together() -> None:
    config, claim, job = manifests()
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["auditor", "nightly"]
    parse(container["args"])
    assert container["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
    names = {v["name"] for v in pod["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == names
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    twins = {str(p.envvar) for p in command.params if getattr(p, "envvar", None)}
    assert set(config["data"]) <= twins
    assert all(isinstance(value, str) for value in config["data"].values())
