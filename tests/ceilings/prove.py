"""Holds the ceilings against runs that no margin was fitted on, and writes the tables of docs/ceilings.md.

``python -m tests.ceilings.prove`` audits the pages of random workloads as the product does, then runs the same arrivals
with free prefill and with real settings changed. Two cores need about half an hour.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from auditor.measures.intervals import wilson
from auditor.model import Options
from auditor.pipeline import read_subject
from tests.ceilings.cases import known_settings, subject_of
from tests.simulator import SHIFTED, Priors, counterfactual, even_times, random_setting, simulate, speedup, true_values

FIRST_SEED = 50_000_000
LEAST_FINISHED = 30
WORTH = 1.05
CLOSE = 0.001
"""Agreement of two times that were rounded differently."""
START, END = "<!-- proof:start -->", "<!-- proof:end -->"


@dataclass(frozen=True)
class Group:
    """One kind of workload of the proof."""

    name: str
    count: int
    priors: Priors
    engine: str = "vllm"
    budget_known: bool = True
    scrapes: int = 2
    counterfactuals: bool = False
    preempted: bool = False
    """Also judge windows with too many preemptions, past the reading's own refusal."""


@dataclass(frozen=True)
class Outcome:
    """One window: what was said and what was true."""

    group: str
    truth: float
    at_99: tuple[float, float | None]
    at_95: tuple[float, float | None]
    prefill_share: float
    plain: float
    preempted: float
    queue_share: float
    real: Mapping[str, float] = field(default_factory=dict)
    """Speed-up of real settings on the same arrivals."""


def groups(scale: float) -> list[Group]:
    """The proof set; ``scale`` 1 is the whole of it."""

    def n(count: int) -> int:
        return max(1, round(count * scale))

    usual = Priors()
    out = [
        Group("budget known", n(2600), usual, counterfactuals=True),
        Group("budget unknown", n(700), usual, budget_known=False),
        Group("240 scrapes", n(60), usual, scrapes=240),
        Group("speculation", n(250), replace(usual, speculation_share=1.0), counterfactuals=True),
        Group("prefill alone (SGLang)", n(300), usual, engine="sglang"),
        Group("tight KV pools", n(350), replace(usual, tight_pool_share=1.0), preempted=True),
    ]
    return out + [Group(f"shifted: {name}", n(300), priors) for name, priors in SHIFTED.items()]


def judge(job: tuple[Group, int]) -> Outcome | None:
    """Run one workload, audit its pages, run what might have been."""
    group, seed = job
    scenario = random_setting(seed, group.priors, engine=group.engine)  # type: ignore[arg-type]
    run = simulate(scenario.setting, scenario.workload)
    start, end = scenario.window(run)
    truth = true_values(run, (start, end))
    if truth.finished < LEAST_FINISHED or truth.gaps <= 0:
        return None
    settings = known_settings(run) if group.budget_known else {}
    times = [start, end] if group.scrapes == 2 else even_times(run, group.scrapes, start=start, end=end)
    subject = subject_of(run, times, scenario.layout, settings)
    if group.preempted:
        from tests.ceilings.past import ceiling_past_preemptions

        found = ceiling_past_preemptions(subject)
    else:
        found = read_subject(subject, Options())["decode_stretch_share"].extra
    if "ceiling_99" not in found:
        return None

    def gained(name: str) -> float:
        return speedup(run, counterfactual(name, scenario.setting, scenario.workload), (start, end))

    real: dict[str, float] = {}
    if group.counterfactuals:
        if not scenario.setting.prefix_caching:
            real["cache_on"] = gained("cache_on")
        real["budget_doubled"] = gained("budget_doubled")
        real["outputs_halved"] = gained("outputs_halved")
        if getattr(scenario.setting, "draft_tokens", 0):
            real["speculation_off"] = gained("speculation_off")
    return Outcome(
        group=group.name,
        truth=gained("free_prefill"),
        at_99=tuple(found["ceiling_99"]),  # type: ignore[arg-type]
        at_95=tuple(found["ceiling_95"]),  # type: ignore[arg-type]
        prefill_share=truth.prefill_share,
        plain=1 / (1 - truth.prefill_share) if truth.prefill_share < 1 else math.inf,
        preempted=truth.preemptions / truth.finished,
        queue_share=truth.queue_share,
        real=real,
    )


# --------------------------------------------------------------------------- tables


def covers(bounds: Sequence[float | None], truth: float) -> bool:
    """The claim holds. A range says nothing below 1, so a truth below 1 counts as 1."""
    low, high = bounds
    value = max(1.0, truth)
    assert low is not None
    return value >= low * (1 - CLOSE) and (high is None or value <= high * (1 + CLOSE))


def share_words(hits: int, count: int) -> str:
    """``99.3 % (98.9-99.6)``: a share with its 95 % Wilson interval."""
    interval = wilson(hits, count)
    if interval is None:
        return "-"
    return f"{100 * hits / count:.1f} % ({100 * interval[0]:.1f}-{100 * interval[1]:.1f})"


def quantile(values: Iterable[float], q: float) -> float:
    listed = sorted(values)
    return listed[min(len(listed) - 1, int(q * len(listed)))] if listed else math.nan


def row(name: str, outcomes: Sequence[Outcome], which: str = "at_99") -> str:
    """One line of the main table."""
    ranges = [(getattr(o, which), o) for o in outcomes]
    upper = [(r, o) for r, o in ranges if r[1] is not None]
    lower = [(r, o) for r, o in ranges if r[1] is None]
    widths = [r[1] / r[0] for r, _ in upper]
    inside = sum(covers(r, o.truth) for r, o in upper)
    held = sum(covers(r, o.truth) for r, o in lower)
    below_two = sum(w <= 2 for w in widths)
    cells = [
        name,
        f"{len(outcomes):,}",
        f"{100 * len(upper) / max(1, len(outcomes)):.0f} %",
        share_words(inside, len(upper)),
        f"{quantile(widths, 0.5):.2f}" if widths else "-",
        f"{quantile(widths, 0.9):.2f}" if widths else "-",
        f"{100 * below_two / len(widths):.0f} %" if widths else "-",
        share_words(held, len(lower)),
    ]
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "| workloads | n | upper end given | truth inside, there | median high/low | 90 % high/low | at most 2x | "
    "truth above low end, where that is all |\n|---|---|---|---|---|---|---|---|"
)


def tables(outcomes: Sequence[Outcome]) -> str:
    """Everything between the marks of docs/ceilings.md."""
    by: dict[str, list[Outcome]] = {}
    for o in outcomes:
        by.setdefault(o.group, []).append(o)
    usual = by.get("budget known", [])
    drafted = by.get("speculation", [])
    parts = [
        f"{len(outcomes):,} windows, seeds from {FIRST_SEED:,}; none of them was used in fitting.",
        "**99 % ranges**\n\n" + COLUMNS + "\n" + _rows(by, "at_99"),
        "**95 % ranges**\n\n" + COLUMNS + "\n" + _rows(by, "at_95"),
        "**By true prefill share of request time** (budget known, 99 %)\n\n" + COLUMNS + "\n" + _by_share(usual),
        "**By preemptions per finished request** (tight pools; the reading refuses above 1 %)\n\n"
        + COLUMNS
        + "\n"
        + _by_preemptions([*usual, *by.get("tight KV pools", [])]),
        _plain(usual),
        "**Real settings on the same arrivals**\n\n" + _real([*usual, *drafted]),
        _halved(usual),
        _verdicts(usual),
    ]
    return "\n\n".join(parts)


def _rows(by: Mapping[str, Sequence[Outcome]], which: str) -> str:
    return "\n".join(row(name, members, which) for name, members in by.items() if name != "tight KV pools")


def _split(outcomes: Sequence[Outcome], edges: Sequence[float], of: Callable[[Outcome], float]) -> str:
    lines = []
    for low, high in itertools.pairwise(edges):
        members = [o for o in outcomes if low < of(o) <= high]
        name = f"{100 * max(0.0, low):g} to {100 * high:g} %" if math.isfinite(high) else f"above {100 * low:g} %"
        if members:
            lines.append(row(name if low >= 0 or high > 0 else "none", members))
    return "\n".join(lines)


def _by_share(outcomes: Sequence[Outcome]) -> str:
    return _split(outcomes, (-1, 0.05, 0.1, 0.2, 0.4, 0.6, 1), lambda o: o.prefill_share)


def _by_preemptions(outcomes: Sequence[Outcome]) -> str:
    return _split(outcomes, (-1, 0, 0.005, 0.01, 0.02, 0.05, 0.2, math.inf), lambda o: o.preempted)


def _plain(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    below = sum(o.plain < o.truth for o in outcomes)
    twice = sum(2 * o.plain < o.truth for o in outcomes)
    slower = sum(o.truth < 1 - 0.005 for o in outcomes)
    waiting = sum(o.truth < 1 - 0.005 and o.queue_share <= 0.1 for o in outcomes)
    return (
        f"The plain 1 / (1 - prefill share) was below the truth in {100 * below / len(outcomes):.0f} % of these, by "
        f"more than 2x in {100 * twice / len(outcomes):.0f} %. In {slower} of {len(outcomes):,} free prefill made "
        f"service slower (the queue moves into larger batches); {waiting} of those had a queue share of at most 10 %."
    )


NAMES = {
    "cache_on": ("prefix cache switched on", "prefix-caching"),
    "budget_doubled": ("step budget doubled", "batched-tokens"),
    "outputs_halved": ("answers half as long", "output-tokens (no upper end)"),
    "speculation_off": ("speculation switched off", "speculative-tokens (no ends)"),
}
PREFILL_LEVERS = ("cache_on", "budget_doubled")


def _real(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| setting | lever | n | median speed-up | 1 % to 99 % | above the 99 % upper end | "
        "above true free prefill by more than 2 % |\n|---|---|---|---|---|---|---|"
    ]
    for name, (words, lever) in NAMES.items():
        pairs = [(o.real[name], o) for o in outcomes if name in o.real and math.isfinite(o.real[name])]
        if not pairs:
            continue
        gains = [g for g, _ in pairs]
        above = beyond = "-"
        if name in PREFILL_LEVERS:
            bounded = [(g, o) for g, o in pairs if o.at_99[1] is not None]
            over = sum(g > (o.at_99[1] or math.inf) * (1 + CLOSE) for g, o in bounded)
            above = f"{over} of {len(bounded):,}"
            beyond = f"{sum(g > max(1.0, o.truth) * 1.02 for g, o in pairs)} of {len(pairs):,}"
        spread = f"{quantile(gains, 0.01):.2f} to {quantile(gains, 0.99):.2f}"
        cells = [words, lever, f"{len(pairs):,}", f"{quantile(gains, 0.5):.3f}", spread, above, beyond]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _halved(outcomes: Sequence[Outcome]) -> str:
    ratios = [
        o.real["outputs_halved"] * (1 - (1 - o.prefill_share) / 2) for o in outcomes if "outputs_halved" in o.real
    ]
    if not ratios:
        return ""
    slower = sum(o.real.get("outputs_halved", 1.0) < 1 for o in outcomes)
    return (
        f"Answers half as long gained {quantile(ratios, 0.5):.2f} times what 1 / (1 - decode share / 2) promises in "
        f"the median, {quantile(ratios, 0.01):.2f} to {quantile(ratios, 0.99):.2f} times from 1 % to 99 %: clients "
        f"that get their answer sooner ask again sooner. Service became slower in {slower} of {len(ratios):,}."
    )


def _verdicts(outcomes: Sequence[Outcome]) -> str:
    useless = [o for o in outcomes if o.at_99[1] is not None and o.at_99[1] < WORTH]
    worth = [o for o in outcomes if o.at_99[0] >= WORTH and o not in useless]
    wrong_no = sum(max(1.0, o.truth) >= WORTH for o in useless)
    wrong_yes = sum(o.truth < WORTH for o in worth)
    return (
        f"Verdicts of a prefill lever at --worth {WORTH} (budget known): not_worth_a_test in {len(useless):,}, "
        f"wrong in {wrong_no}; worth_a_test in {len(worth):,}, wrong in {wrong_yes}; undecided in "
        f"{len(outcomes) - len(useless) - len(worth):,}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1: the whole proof; 0.05: a sample")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--groups", nargs="*", help="only these")
    parser.add_argument("--kept", type=Path, nargs="*", default=[], help="outcomes of earlier runs, to be added")
    parser.add_argument("--keep", type=Path, help="also write every outcome, one JSON object a line")
    parser.add_argument("--doc", type=Path, help="put the tables between the marks of this file")
    given = parser.parse_args()
    jobs = [
        (g, FIRST_SEED + 1_000_000 * k + i)
        for k, g in enumerate(groups(given.scale))
        for i in range(g.count)
        if given.groups is None or g.name in given.groups
    ]
    # All groups side by side, so that a run that is cut short still has some of each.
    jobs.sort(key=lambda job: (job[1] - FIRST_SEED) % 1_000_000 / job[0].count)
    outcomes = [o for path in given.kept for o in load(path)]
    with ProcessPoolExecutor(given.processes) as pool:
        for outcome in pool.map(judge, jobs, chunksize=4):
            if outcome is not None and math.isfinite(outcome.truth):
                outcomes.append(outcome)
                if given.keep is not None:
                    with given.keep.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(asdict(outcome)) + "\n")
    text = tables(outcomes)
    if given.doc is None:
        print(text)
        return
    put(text, given.doc)


def put(text: str, doc: Path) -> None:
    """Replace what stands between the marks of a document."""
    old: str = doc.read_text(encoding="utf-8")
    head, _, rest = old.partition(START)
    _, _, tail = rest.partition(END)
    doc.write_text(f"{head}{START}\n{text}\n{END}{tail}", encoding="utf-8")


def load(path: Path) -> list[Outcome]:
    """Outcomes that an earlier run kept."""
    out: list[Outcome] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        values: dict[str, Any] = json.loads(line)
        values["at_99"], values["at_95"] = tuple(values["at_99"]), tuple(values["at_95"])
        out.append(Outcome(**values))
    return out


if __name__ == "__main__":
    main()
