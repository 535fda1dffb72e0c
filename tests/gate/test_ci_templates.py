"""The CI templates: their files pass published schemas, and their shell steps run here as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from auditor.gate.reader import parse_premises
from auditor.gating import known_names

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy" / "ci"
DEMO = ROOT / "fixtures" / "demo"
SCHEMAS = ROOT / "fixtures" / "schemas"
PAGES = f"--before={DEMO / 'before.prom'}\n{DEMO / 'after.prom'}\n--seconds=175.1\n"
Ended = subprocess.CompletedProcess[str]
HOLDS = "premises: [{belief: decode dominates}]"
BREAKS = "premises: [{reading: length_share, at_most: 10%}]"
UNDECIDED = "premises: [{reading: length_share, at_most: 10%, for: {model: nobody}}]"


def action() -> dict[str, Any]:
    found = yaml.safe_load((CI / "action.yml").read_text())
    assert isinstance(found, dict)
    return found


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((CI / "kubernetes-gate-job.yaml").read_text()))


def path_with_auditor(folder: Path) -> str:
    """A PATH on which ``auditor`` is this checkout's program."""
    program = folder / "bin" / "auditor"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m auditor "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_the_action_passes_its_schema() -> None:
    schema = json.loads((SCHEMAS / "github-action.json").read_text())
    assert [e.message for e in Draft7Validator(schema).iter_errors(action())] == []
    assert list(Draft7Validator(schema).iter_errors({**action(), "runs": {"using": "composite"}}))


def test_no_input_becomes_text_of_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        for name in re.findall(r"inputs\.([a-z-]+)", json.dumps(step.get("env", {}))):
            assert name in action()["inputs"]


def run_step(
    name: str, folder: Path, inputs: Mapping[str, str], path: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str], str]:
    """A step with the runner's shell; inputs take their defaults. Gives its end, its outputs and the job summary."""
    (step,) = [s for s in action()["runs"]["steps"] if s["name"] == name]
    values = {k: v["default"] for k, v in action()["inputs"].items()} | dict(inputs)
    env = {k: re.sub(r"\$\{\{ inputs\.([a-z-]+) }}", lambda m: values[m[1]], v) for k, v in step["env"].items()}
    script, outputs, summary = folder / "step.sh", folder / "outputs", folder / "summary.md"
    script.write_text(step["run"])
    outputs.write_text("")
    summary.write_text("")
    env |= {
        "PATH": path, "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_ACTION_PATH": str(CI), "HOME": str(folder),
    }  # fmt: skip
    end = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        capture_output=True, text=True, env=env, cwd=folder, timeout=120, check=False,
    )  # fmt: skip
    return end, dict(line.split("=", 1) for line in outputs.read_text().splitlines()), summary.read_text()


@pytest.mark.parametrize(
    ("text", "code", "verdict", "level"),
    [(HOLDS, 0, "pass", "notice"), (BREAKS, 1, "fail", "error"), (UNDECIDED, 3, "undecided", "error")],
)
def test_the_gate_step(tmp_path: Path, text: str, code: int, verdict: str, level: str) -> None:
    (tmp_path / "premises.yaml").write_text(text)
    inputs = {"targets": "", "arguments": PAGES, "window": ""}
    end, outputs, summary = run_step("Gate", tmp_path, inputs, path_with_auditor(tmp_path))
    assert end.returncode == code, end.stderr
    assert (outputs["verdict"], outputs["exit-code"]) == (verdict, str(code))
    assert summary.startswith(f"## Gate: {verdict}")
    assert end.stdout.splitlines()[-1].startswith(f"::{level} title=premise-auditor::gate {verdict}: ")
    assert json.loads(Path(outputs["report"]).read_text())["gate"]["verdict"] == verdict
    assert ElementTree.parse(outputs["junit"]).getroot().tag == "testsuites"
    if code == 1:
        assert "::error file=premises.yaml,line=1,col=12," in end.stdout


def test_undecided_can_be_let_through_and_broken_cannot(tmp_path: Path) -> None:
    for text, code in ((UNDECIDED, 0), (BREAKS, 1)):
        (tmp_path / "premises.yaml").write_text(text)
        inputs = {"arguments": PAGES, "window": "", "on-undecided": "warn"}
        end, outputs, _ = run_step("Gate", tmp_path, inputs, path_with_auditor(tmp_path))
        assert end.returncode == code
        assert outputs["exit-code"] == str(3 if code == 0 else 1)
        assert ("::warning title=premise-auditor::undecided" in end.stdout) == (code == 0)


def test_a_wrong_file_ends_with_two_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "premises.yaml").write_text("premises: [{audit: queuing}]")
    end, outputs, summary = run_step("Gate", tmp_path, {"arguments": PAGES, "window": ""}, path_with_auditor(tmp_path))
    assert (end.returncode, outputs["verdict"], summary) == (2, "error", "")
    assert "premises.yaml:1:20" in end.stderr


def test_values_are_never_commands(tmp_path: Path) -> None:
    harm = '"; touch harmed; echo "$(touch harmed)`touch harmed`'
    (tmp_path / "premises.yaml").write_text(HOLDS)
    for inputs in ({"targets": harm}, {"arguments": harm}, {"window": harm}, {"premises": harm}):
        end, _, _ = run_step("Gate", tmp_path, {"window": "", **inputs}, path_with_auditor(tmp_path))
        assert end.returncode == 2
    assert not (tmp_path / "harmed").exists()


def test_the_install_step(tmp_path: Path) -> None:
    path = path_with_auditor(tmp_path)
    end, _, _ = run_step("Install premise-auditor", tmp_path, {}, path)
    assert (end.returncode, end.stdout.startswith("premise-auditor ")) == (0, True)
    # Without the program: pip is asked for the checkout that holds the action, or for what the caller named.
    empty = tmp_path / "other"
    empty.mkdir()
    (empty / "python3").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    (empty / "python3").chmod(0o755)
    for inputs in ({}, {"package": "premise-auditor==0.1.0"}):
        end, _, _ = run_step("Install premise-auditor", tmp_path, inputs, f"{empty}:/usr/bin:/bin")
        assert end.returncode == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == [f"{CI}/../..", "premise-auditor==0.1.0"]
    assert ((CI / ".." / "..").resolve() / "pyproject.toml").is_file()


# --------------------------------------------------------------------------- Kubernetes


def test_the_manifests_pass_the_schema() -> None:
    validator = Draft202012Validator(json.loads((SCHEMAS / "kubernetes-1.37.json").read_text()))
    assert [m["kind"] for m in manifests()] == ["ConfigMap", "Job"]
    for manifest in manifests():
        assert [e.message for e in validator.iter_errors(manifest)] == []
    job = manifests()[1]
    job["spec"]["template"]["spec"]["restartPolcy"] = "Never"
    assert list(validator.iter_errors(job))


def test_the_job_and_its_map_fit_together() -> None:
    config, job = manifests()
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env["PREMISES"] == f"{container['volumeMounts'][0]['mountPath']}/{next(iter(config['data']))}"
    file = parse_premises(config["data"]["premises.yaml"], file="premises.yaml", names=known_names())
    assert len(file.premises) == 8
    final = job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]
    assert (final["containerName"], final["values"]) == (container["name"], [1, 2, 3, 4])
    assert pod["restartPolicy"] == "Never"  # podFailurePolicy needs it


class Server(BaseHTTPRequestHandler):
    pages: ClassVar[list[bytes]] = []

    def do_GET(self) -> None:
        body = self.pages[0] if len(self.pages) == 1 else self.pages.pop(0)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def canary() -> Iterator[str]:
    """A server whose second page is 260 requests later than its first."""
    Server.pages = [(DEMO / "before.prom").read_bytes(), (DEMO / "after.prom").read_bytes()]
    running = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    ("text", "code", "verdict"), [(HOLDS, 0, "pass"), (BREAKS, 1, "fail"), (UNDECIDED, 3, "undecided")]
)
def test_the_jobs_script(tmp_path: Path, canary: str, text: str, code: int, verdict: str) -> None:
    (container,) = manifests()[1]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "premises.yaml").write_text(text)
    env = {e["name"]: e["value"] for e in container["env"]}
    env |= {
        "TARGET": canary, "WINDOW": "1s", "PREMISES": str(tmp_path / "premises.yaml"),
        "PATH": path_with_auditor(tmp_path), "TERMINATION_LOG": str(tmp_path / "log"),
    }  # fmt: skip
    script = container["args"][0].replace("/tmp/", f"{tmp_path}/")
    end = subprocess.run(
        [*container["command"], script], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert end.returncode == code, end.stderr
    assert f"gate {verdict}: 1 premise" in (tmp_path / "log").read_text()
    assert f"GATE {verdict.upper()}" in end.stdout
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == code
    assert "premise_auditor_premise{" in (tmp_path / "gate.prom").read_text()
