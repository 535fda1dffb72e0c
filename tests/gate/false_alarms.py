"""How often a gate fails although its premise is true, and how often it finds one that is false.

    python -m tests.gate.false_alarms [SERVERS] [DAYS] > docs/gate-false-alarms.md

A server is a simulated vLLM with its own machine and workload; a day is another run of it: other arrivals, lengths and
step noise. The truth of a premise is the server's long-run value, pooled over all its days. A premise is then gated on
every day, with limits laid around that truth.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

import numpy as np

from auditor.gate.baselines import ReportBaselines
from auditor.gate.judge import Terms, judge_report
from auditor.gate.model import At, Limits, Names, Place, Premise, PremisesFile, Regression
from auditor.gate.presets import PRESETS, believe
from auditor.gating import known_names
from auditor.model import Options, Report
from auditor.pipeline import audit_window, build_subjects
from tests.simulator import random_setting, simulate, snapshots, true_values
from tests.simulator.auditing import window_of
from tests.simulator.cost import Slowed
from tests.simulator.settings import VllmSetting
from tests.simulator.truth import Truth, pool
from tests.simulator.workload import Lengths, Workload, make_workload

REQUESTS = 300
FEWEST_WINDOWS = 1000
"""A table for the docs has as many windows for every premise."""
INSIDE, WRONG = 1.25, 3.0
"""The truth is inside its limit by this factor, and beyond it by this one. Shares: their odds."""
ENOUGH = 5.0
"""Distance of truth and limit, in standard deviations from day to day, from which a window has enough requests."""
BEHIND = {"mean_prefill_seconds": "prefill_time_seconds", "prefill_share": "prefill_time_seconds",
          "queue_share": "queue_time_seconds"}  # fmt: skip
"""The histogram that a reading's interval comes from."""
SLOWER, ALLOWED = 1.5, 0.10
PLACE = Place("premises.yaml", 1, 1)
OPTIONS = Options()


@dataclass(frozen=True)
class Server:
    setting: VllmSetting
    draw: Callable[[int], Workload]


@dataclass(frozen=True)
class Day:
    """One audited window, with what the simulator knows of it."""

    report: Report
    truth: Truth
    ttft: tuple[tuple[float, ...], tuple[float, ...]]
    """Edges and observations of the ttft histogram."""


def make_server(seed: int) -> Server:
    """Caps that cut some answers, prefixes that some prompts share, seats that are sometimes too few, some drafts."""
    scenario = random_setting(seed)
    assert isinstance(scenario.setting, VllmSetting)
    rng = np.random.default_rng([seed, 78])
    prompts = Lengths(float(rng.uniform(100, 2000)), sigma=float(rng.uniform(0.2, 0.8)), low=8, high=8000)
    mean_answer = float(rng.uniform(30, 300))
    outputs = Lengths(mean_answer, sigma=float(rng.uniform(0.2, 0.8)), high=2000)
    clients = int(rng.integers(4, 24))
    groups = int(rng.integers(1, 8))
    share, prefix = float(rng.uniform(0.2, 0.9)), int(rng.integers(64, 1024))
    cap = int(mean_answer * rng.uniform(1.1, 2.5))
    drafts = int(rng.choice([0, 3]))
    seats = int(max(2, clients * rng.choice([0.6, 0.85, 2.0])))
    setting = replace(
        scenario.setting, blocks=100_000, prefix_caching=True, draft_tokens=drafts, seats=seats,
        acceptance=float(rng.uniform(0.3, 0.8)), budget=max(scenario.setting.budget, 64 * (1 + drafts)),
    )  # fmt: skip

    def draw(day: int) -> Workload:
        return make_workload(
            seed=1000 * seed + day, count=REQUESTS, prompts=prompts, outputs=outputs, clients=clients, cap_tokens=cap,
            prefix_groups=groups, prefix_share=share, prefix_tokens=prefix, think_seconds=0.05,
        )  # fmt: skip

    return Server(setting, draw)


def run_day(server: Server, day: int, factor: float = 1.0) -> Day:
    setting = server.setting
    machine = replace(setting.machine, seed=setting.machine.seed * 1000 + day, law=Slowed(setting.machine.law, factor))
    run = simulate(replace(setting, machine=machine), server.draw(day))
    times = (0.1 * run.seconds, 0.9 * run.seconds)
    window = window_of(snapshots(run, times), times)
    (subject,) = build_subjects(window, OPTIONS)
    histogram = subject.buckets("ttft_seconds")
    return Day(audit_window(window, OPTIONS), true_values(run, times), (histogram.edges, histogram.counts))


# --------------------------------------------------------------------------- premises around the truth


@dataclass(frozen=True)
class Gated:
    """A premise with the truth at its limit, well inside it and clearly beyond it."""

    name: str
    at_limit: Premise
    inside: Premise
    wrong: Premise
    truth: float | None = None
    """None for a percentile, whose wrong edge is chosen so that the window's requests are enough."""

    def has_enough(self, days: Sequence[Day]) -> bool:
        """Can a window of this size tell the truth from the wrong limit? They are at least five times the spread apart
        that the reading itself has from day to day: an interval of 1.5 times the true width then excludes it. And the
        histogram behind it must see something: where all of it lies in one bucket its interval is as wide as that."""
        if self.truth is None:
            return True
        readings = days[0].report.subjects[0].readings
        behind = readings[BEHIND.get(self.wrong.of, self.wrong.of)]
        if behind.extra.get("blind"):
            return False
        limits = self.wrong.condition
        assert isinstance(limits, Limits)
        limit = limits.high if np.isfinite(limits.high) else limits.low
        values = [v for d in days if (v := d.report.subjects[0].readings[self.wrong.of].value) is not None]
        return abs(self.truth - limit) >= ENOUGH * float(np.std(values, ddof=1))


def _premise(reading: str, limits: Limits, at: At | None = None) -> Premise:
    return Premise(reading, "reading", reading, PLACE, condition=limits, at=at)


def _odds(share: float, factor: float) -> float:
    odds = share / (1 - share) * factor
    return odds / (1 + odds)


def around(reading: str, truth: float, *, upper: bool, share: bool) -> Gated:
    """``at_most`` (or ``at_least``) with limits at the truth, the truth inside and the truth beyond."""

    def limit(factor: float) -> Limits:
        moved = _odds(truth, factor) if share else truth * factor
        return Limits(high=moved) if upper else Limits(low=moved)

    inside, wrong = (INSIDE, 1 / WRONG) if upper else (1 / INSIDE, WRONG)
    at: At | None = "mean" if known_names().readings[reading].distribution else None
    first, second, third = (_premise(reading, limit(f), at) for f in (1.0, inside, wrong))
    return Gated(f"{reading} {'at_most' if upper else 'at_least'}", first, second, third, truth)


def _long_run(days: Sequence[Day], sum_reading: str, count_reading: str) -> float:
    """Mean over all days: sum of value x count over sum of counts."""
    total = count = 0.0
    for day in days:
        reading = day.report.subjects[0].readings[sum_reading]
        weight = reading.count if count_reading == sum_reading else day.report.subjects[0].readings[count_reading].value
        if reading.value is None or weight is None:
            continue
        total += reading.value * weight
        count += weight
    return total / count if count else 0.0


def _percentile(days: Sequence[Day]) -> Gated | None:
    """p90 of ttft, at the nearest edges: one that the long-run p90 is below, the next one, and one well below it."""
    edges = days[0].ttft[0]
    counts = np.sum([d.ttft[1] for d in days], axis=0)
    below = np.cumsum(counts) / counts.sum()
    right = [e for e, b in zip(edges, below, strict=True) if b >= 0.9 and np.isfinite(e)]
    wrong = [e for e, b in zip(edges, below, strict=True) if b <= 0.8]
    if len(right) < 2 or not wrong:
        return None
    first, second, third = (_premise("ttft_seconds", Limits(high=e), "p90") for e in (right[0], right[1], wrong[-1]))
    return Gated("ttft_seconds p90 at_most", first, second, third)


def premises_of(days: Sequence[Day]) -> Iterator[Gated]:
    """Premises that mean something on this server."""
    truth = pool([d.truth for d in days])
    shares = (
        ("length_share", truth.length_share, True),
        ("prefill_share", truth.prefill_share, True),
        ("prefill_share", truth.prefill_share, False),
        ("queue_share", truth.queue_share, True),
        ("prefix_hit_share", truth.prefix_hit_share, False),
    )
    for name, value, upper in shares:
        if 0.005 < value < 0.995:
            yield around(name, value, upper=upper, share=True)
    for name in ("ttft_seconds", "e2e_seconds", "itl_seconds", "mean_prefill_seconds"):
        yield around(name, _long_run(days, name, name), upper=True, share=False)
    drafted = _long_run(days, "tokens_per_draft_step", "tokens_per_draft_step")
    if drafted > 1.2:
        yield around("tokens_per_draft_step", drafted, upper=False, share=False)
    rate = _long_run(days, "generation_tokens_per_wall_second", "finished_requests")
    yield around("generation_tokens_per_wall_second", rate, upper=False, share=False)
    if (percentile := _percentile(days)) is not None:
        yield percentile


# --------------------------------------------------------------------------- counting


@dataclass
class Tally:
    """Verdicts by premise and position of the truth."""

    words: defaultdict[tuple[str, str], Counter[str]]

    def add(self, name: str, where: str, word: str) -> None:
        self.words[name, where][word] += 1

    def share(self, name: str, where: str, word: str) -> float | None:
        found = self.words.get((name, where))
        return None if not found else found[word] / sum(found.values())

    def windows(self, name: str) -> int:
        return max(sum(c.values()) for (n, _), c in self.words.items() if n == name)

    def names(self) -> list[str]:
        return list(dict.fromkeys(n for n, _ in self.words))


def word_of(report: Report, premise: Premise, names: Names, terms: Terms) -> str:
    file = PremisesFile("premises.yaml", (premise,))
    gate = judge_report(report, file, names, terms).report.gate
    assert gate is not None
    return str(gate["premises"][0]["verdict"]) if gate["premises"] else "skipped"


def count(servers: int, days: int, *, first_seed: int = 70_000) -> Tally:
    """Gate every premise on every day of every server."""
    tally, names = Tally(defaultdict(Counter)), known_names()
    terms = Terms(today=date(2026, 12, 1))
    for seed in range(first_seed, first_seed + servers):
        server = make_server(seed)
        run = [run_day(server, day) for day in range(days)]
        for gated in premises_of(run):
            _count_gated(gated, run, tally, names, terms)
        for belief in PRESETS["strict"]:
            if belief in ("metrics trustworthy", "engine alive", "requests accounted", "no preemption"):
                premise = believe(belief, name=belief, place=PLACE)
                for day in run:
                    tally.add(f"belief: {belief}", "inside", word_of(day.report, premise, names, terms))
        _count_regressions(server, run, tally, names, terms)
    return tally


def _count_gated(gated: Gated, run: Sequence[Day], tally: Tally, names: Names, terms: Terms) -> None:
    enough = gated.has_enough(run)
    for day in run:
        for where, premise in (("limit", gated.at_limit), ("inside", gated.inside), ("wrong", gated.wrong)):
            word = word_of(day.report, premise, names, terms)
            tally.add(gated.name, where, word)
            if where == "wrong" and enough:
                tally.add(gated.name, "enough", word)


def top_up_drafts(tally: Tally, days: int, *, first_seed: int) -> None:
    """Half of the servers have no drafts: more of those that have, until this premise too has its windows."""
    name, names, terms = "tokens_per_draft_step at_least", known_names(), Terms(today=date(2026, 12, 1))
    seed = first_seed
    while tally.windows(name) < FEWEST_WINDOWS:
        server = make_server(seed)
        seed += 1
        if server.setting.draft_tokens:
            run = [run_day(server, day) for day in range(days)]
            for gated in premises_of(run):
                if gated.name == name:
                    _count_gated(gated, run, tally, names, terms)


def _count_regressions(server: Server, run: Sequence[Day], tally: Tally, names: Names, terms: Terms) -> None:
    """No worse than 10 % than another day: of the same server (true), of one whose steps took 1.5 times as long."""
    slow = [run_day(server, 500 + i, SLOWER) for i in range(min(8, len(run)))]
    documents = [d.report.to_json() for d in run]
    for name in ("e2e_seconds", "decode_seconds_per_token"):
        at: At | None = "mean" if names.readings[name].distribution else None
        premise = Premise(name, "reading", name, PLACE, condition=Regression(ALLOWED), at=at)
        for (a, b), document in zip(pairwise(range(len(run))), documents, strict=False):
            one = replace(terms, baselines=ReportBaselines((document,), "one"))
            several = replace(terms, baselines=ReportBaselines(tuple(documents[max(0, a - 4) : a + 1]), "five"))
            for label, chosen in (("1 report", one), ("5 reports", several)):
                if label == "5 reports" and a < 4:
                    continue
                key = f"{name} worse_than_baseline_by 10%, {label}"
                tally.add(key, "inside", word_of(run[b].report, premise, names, chosen))
                word = word_of(slow[b % len(slow)].report, premise, names, chosen)
                tally.add(key, "wrong", word)


def table(tally: Tally) -> Iterator[str]:
    """The rows of docs/gate-false-alarms.md."""
    yield (
        "| premise | windows | at the limit: fails | inside: fails | passes | wrong: fails | passes "
        "| wrong, enough requests: windows | fails |"
    )
    yield f"|{'---|' * 9}"
    for name in tally.names():
        cells = [
            _percent(tally.share(name, where, word))
            for where, word in (
                ("limit", "broken"), ("inside", "broken"), ("inside", "holds"), ("wrong", "broken"), ("wrong", "holds"),
            )
        ]  # fmt: skip
        enough = sum(tally.words.get((name, "enough"), Counter()).values())
        cells += [str(enough) if enough else "", _percent(tally.share(name, "enough", "broken"))]
        yield f"| {name} | {tally.windows(name)} | {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.1f} %"


HEAD = """\
# False alarms of the gate

Made by `python -m tests.gate.false_alarms {servers} {days}`: {servers} simulated vLLM servers, {days} windows each,
about {requests} requests a window. Every server has its own machine, lengths, caps, shared prefixes, seats and drafts;
its truth is the long-run value over all its windows.

- *at the limit*: the limit is exactly the truth, the hardest case for a gate that must not fail. A 95 % interval may
  fail on 2.5 % of such windows.
- *inside*: the limit is a factor of {inside} beyond the truth (of its odds, for shares; the next bucket edge, for p90).
- *wrong*: the truth is beyond its limit by a factor of {wrong} (for p90: at an edge that at most 80 % stay below).
- *enough requests*: truth and wrong limit are at least five times as far apart as the reading's own standard deviation
  from day to day, and not all of its histogram lies in one bucket. Where too few requests make up a share, or all of
  them end below the first bucket edge, no gate can tell.

Windows that neither fail nor pass are undecided, exit code 3.
"""

MEANING = """\
## What to take from it

- A premise with an interval (shares, means, percentiles) fails wrongly in at most 3 % of windows even where the truth
  stands at its limit. No wrong one passed.
- Undecided is common: shares of time and tokens are known from buckets, so their intervals are wide. Leave a limit room
  on its right side, or audit a longer window.
- Numbers without an interval (`tokens_per_draft_step`, rates over the wall clock) are judged by their value: at the
  limit they are a coin, and a few percent inside they are safe. Leave them room.
- A regression against a single report knows the noise inside both windows only, not that from day to day; three or more
  reports measure both.
"""


def main() -> None:
    servers, days = (int(a) for a in (sys.argv[1:3] if len(sys.argv) == 3 else ("50", "40")))
    tally = count(servers, days)
    if servers * days >= FEWEST_WINDOWS:
        top_up_drafts(tally, days, first_seed=70_000 + servers)
    print(HEAD.format(servers=servers, days=days, requests=int(0.8 * REQUESTS), inside=INSIDE, wrong=WRONG))
    print("\n".join(table(tally)))
    print()
    print(MEANING, end="")


def shares_of(tally: Tally) -> Mapping[str, tuple[float | None, float | None, float | None]]:
    """Fails at the limit, fails inside, fails where wrong: by premise."""
    return {
        n: (tally.share(n, "limit", "broken"), tally.share(n, "inside", "broken"), tally.share(n, "wrong", "broken"))
        for n in tally.names()
    }


if __name__ == "__main__":
    main()
