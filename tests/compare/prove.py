"""How often like servers get a winner, and how often a real 10 % is found: the tables of docs/compare.md.

    python -m tests.compare.prove [SETTINGS] > docs/compare-proof.md

Each setting is a simulated vLLM server with its own machine and workload. Arms are runs with other seeds: other
arrivals, lengths and step noise. The slower arm's steps all take 10 % longer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auditor.compare import compare_arms, make_arm
from auditor.compare.plan import runs_needed, variation_of
from auditor.measures.readings import READINGS
from auditor.model import Options
from auditor.pipeline import build_subjects, read_subject
from tests.simulator import random_setting, simulate, snapshots
from tests.simulator.auditing import window_of
from tests.simulator.cost import Slowed
from tests.simulator.settings import VllmSetting
from tests.simulator.workload import Lengths, Workload, make_workload

BETTER = {name: declared.better for name, declared in READINGS.items()}
DIRECTED = [name for name, better in BETTER.items() if better]
OPTIONS = Options()
SLOWER = 1.10
MOST = 30
"""Repeats beyond which a plan is not followed up here."""


@dataclass(frozen=True)
class Server:
    """One setting and how to draw another day of its workload."""

    setting: VllmSetting
    draw: Callable[[int], Workload]


def make_server(seed: int) -> Server:
    """A server with moderate, steady traffic: closed loop or open below saturation, 300 requests a window."""
    scenario = random_setting(seed)
    assert isinstance(scenario.setting, VllmSetting)
    rng = np.random.default_rng([seed, 77])
    prompts = Lengths(float(rng.uniform(100, 2000)), sigma=float(rng.uniform(0.2, 0.8)), low=8, high=8000)
    outputs = Lengths(float(rng.uniform(20, 300)), sigma=float(rng.uniform(0.2, 0.8)), high=2000)
    clients = int(rng.integers(4, 24))

    def draw(day: int) -> Workload:
        return make_workload(seed=1000 * seed + day, count=300, prompts=prompts, outputs=outputs, clients=clients)

    return Server(replace(scenario.setting, blocks=100_000), draw)


def report_of(server: Server, day: int, factor: float = 1.0) -> Mapping[str, Any]:
    """What a comparison reads of one window's report."""
    setting = server.setting
    machine = replace(setting.machine, seed=setting.machine.seed * 1000 + day, law=Slowed(setting.machine.law, factor))
    run = simulate(replace(setting, machine=machine), server.draw(day))
    times = (0.1 * run.seconds, 0.9 * run.seconds)
    window = window_of(snapshots(run, times), times)
    subjects = []
    for subject in build_subjects(window, OPTIONS):
        readings = read_subject(subject, OPTIONS)
        subjects.append(
            {
                "labels": dict(readings.labels),
                "flags": list(readings.flags),
                "settings": {},
                "readings": {name: r.to_json() for name, r in readings.values.items()},
            }
        )
    head = {"kind": "scrapes", "seconds": window.seconds, "start": f"{day}-{factor}"}
    return {"schema": 1, "kind": "audit", "window": head, "targets": [], "subjects": subjects}


def compared(base: list[Mapping[str, Any]], other: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    arms = [
        make_arm(name, [(f"{name}{i}", r) for i, r in enumerate(reports)])
        for name, reports in (("a", base), ("b", other))
    ]
    return compare_arms(arms, better=BETTER, tool="proof")


@dataclass
class Tally:
    """Judged rows by reading, those that named a winner, and overall verdicts."""

    judged: Counter[str]
    won: Counter[str]
    overall: Counter[str]

    @classmethod
    def empty(cls) -> Tally:
        return cls(Counter(), Counter(), Counter())

    def add(self, document: Mapping[str, Any]) -> None:
        self.overall[document["verdict"]] += 1
        for row in document["rows"]:
            if row["reading"] in DIRECTED and row["low"] is not None and row["change"] is not None:
                self.judged[row["reading"]] += 1
                self.won[row["reading"]] += row["verdict"] in ("better", "worse")

    @property
    def share(self) -> float:
        return sum(self.won.values()) / max(1, sum(self.judged.values()))


def prove(count: int, *, repeats: int = 3) -> tuple[Tally, Tally, dict[str, list[int]]]:
    """A/A with single windows, A/A with repeats, and a real 10 % where the plan says that it can be found."""
    single, repeated = Tally.empty(), Tally.empty()
    found: dict[str, list[int]] = {}
    for seed in range(count):
        server = make_server(50_000 + seed)
        base = [report_of(server, day) for day in range(2 * repeats)]
        if any(not r["subjects"] for r in base):
            continue
        single.add(compared(base[:1], base[repeats : repeats + 1]))
        repeated.add(compared(base[:repeats], base[repeats:]))
        for reading, needed in _plans(base).items():
            if needed is None or not 2 <= needed <= MOST:
                continue
            a = [report_of(server, 900 + day) for day in range(needed)]
            b = [report_of(server, 500 + day, SLOWER) for day in range(needed)]
            row = next(r for r in compared(a, b)["rows"] if r["reading"] == reading)
            found.setdefault(reading, []).append(int(row["verdict"] == "worse"))
    return single, repeated, found


def _plans(base: list[Mapping[str, Any]]) -> dict[str, int | None]:
    """Repeats needed for 10 %, for the two readings that a slower machine moves by just that."""
    out: dict[str, int | None] = {}
    for reading in ("itl_seconds", "e2e_seconds"):
        values = [r["subjects"][0]["readings"][reading]["value"] for r in base]
        variation = None if None in values else variation_of(values)
        out[reading] = None if variation is None else runs_needed(variation, SLOWER - 1, len(values))
    return out


def table(count: int) -> Iterator[str]:
    single, repeated, found = prove(count)
    yield f"Simulated servers: {count}; windows of about 240 requests; three repeats an arm.\n"
    yield "| comparison | rows judged | winner named | worst reading |"
    yield "|---|---|---|---|"
    for words, tally in (("A/A, one window each (noise from counts)", single), ("A/A, three repeats each", repeated)):
        worst = max(tally.judged, key=lambda r: tally.won[r] / tally.judged[r])
        worst_share = tally.won[worst] / tally.judged[worst]
        judged = sum(tally.judged.values())
        yield f"| {words} | {judged} | {tally.share:.1%} | {worst} {worst_share:.1%} of {tally.judged[worst]} |"
    yield ""
    yield "| overall verdict, A/A | one window | three repeats |"
    yield "|---|---|---|"
    for word in sorted(set(single.overall) | set(repeated.overall)):
        yield f"| {word} | {single.overall[word]} | {repeated.overall[word]} |"
    yield ""
    yield "| every step 10 % slower, with the repeats that the plan asked for | tests | found |"
    yield "|---|---|---|"
    for reading, hits in sorted(found.items()):
        yield f"| {reading} | {len(hits)} | {sum(hits) / len(hits):.1%} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        print(line)
