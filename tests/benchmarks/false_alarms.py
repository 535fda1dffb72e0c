"""How often a quiet night is called changed, worse or better, by reading.

    python -m tests.benchmarks.false_alarms                 1,000 months, prints a table (about ten minutes of one core)
    python -m tests.benchmarks.false_alarms 100 60          fewer months, fewer simulated nights a model

Four simulated services run quietly: the same engine and the same kind of requests every night, only the requests and
the rate (4 %) differ. A month is thirty of a service's simulated nights, drawn without replacement; every night from
the eighth on is compared with those before it, exactly as ``auditor nightly`` does.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

from auditor.history.changes import NOT_JUDGED, judge
from auditor.history.document import TRAFFIC
from auditor.history.rows import STATES, reading_rows
from auditor.history.series import Point
from auditor.measures.readings import READINGS
from auditor.measures.targets import build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Options, Window
from auditor.pipeline import build_subjects, read_subject
from auditor.sources.exposition import parse_page
from tests.nightly.month import CUT, MODELS, SMALL_POOL_BLOCKS, Model, pages_of

MONTHS, POOL, NIGHTS = 1000, 240, 30
TIGHT = replace(MODELS[0], name="chat, small pool", setting=replace(MODELS[0].setting, blocks=SMALL_POOL_BLOCKS))
SERVICES = (*MODELS, TIGHT)
Night = dict[str, Point]


def quiet_night(model: Model, seed: int) -> Night:
    """All readings of one simulated night."""
    vocabulary = load_vocabulary()
    texts = pages_of(model, seed, weekend=False, blocks=model.setting.blocks, seed=7)
    pages = [(at, parse_page(text.encode(), wanted=vocabulary.wanted)) for at, text in zip(CUT, texts, strict=True)]
    target = build_target("t", pages, vocabulary, saved=False)
    seconds = CUT[1] - CUT[0]
    window = Window("scrapes", CUT[0], CUT[1], seconds, (target,))
    (subject,) = build_subjects(window, Options())
    readings = read_subject(subject, Options())
    rows = list(reading_rows({"readings": {k: r.to_json() for k, r in readings.values.items()}}))
    done = next(r.numbers[0] for r in rows if r.name == TRAFFIC) or 0.0
    return {
        r.name: Point(0.0, "scrapes", STATES[r.state], *r.numbers, r.reason, seconds, done / seconds)
        for r in rows
        if "." not in r.name and r.name not in NOT_JUDGED
    }


def count_alarms(
    nights: list[Night], months: int, chance: random.Random
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """(nights compared, nights outside, nights called worse) by reading."""
    compared: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    for _ in range(months):
        month = chance.sample(nights, NIGHTS)
        for i in range(7, NIGHTS):
            for name, point in month[i].items():
                if point.value is None:
                    continue
                declared = READINGS[name]
                earlier = [n.get(name) for n in month[:i]]
                change = judge(name, point, earlier, unit=declared.unit, better=declared.better)
                if change.baseline is None:
                    continue
                compared[name] += 1
                outside[name] += change.verdict != "same"
                worse[name] += change.verdict == "worse"
    return compared, outside, worse


def main() -> None:
    months = int(sys.argv[1]) if len(sys.argv) > 1 else MONTHS
    pool = int(sys.argv[2]) if len(sys.argv) > 2 else POOL
    chance = random.Random(2026)
    results: dict[str, dict[str, Any]] = {}
    total_nights = total_worse = 0
    for model in SERVICES:
        nights = [quiet_night(model, seed) for seed in range(pool)]
        compared, outside, worse = count_alarms(nights, months // len(SERVICES), chance)
        total_nights += (months // len(SERVICES)) * (NIGHTS - 7)
        total_worse += sum(worse.values())
        for name in compared:
            results.setdefault(name, {})[model.name] = (outside[name] / compared[name], compared[name])
        print(f"{model.name}: {pool} nights simulated", file=sys.stderr)
    names = [m.name for m in SERVICES]
    print(f"| reading | {' | '.join(names)} |")
    print(f"|---|{'---|' * len(names)}")
    for name in sorted(results, key=lambda n: -max(r for r, _ in results[n].values())):
        cells = [f"{results[name][m][0]:.2%}" if m in results[name] else "no value" for m in names]
        print(f"| `{name}` | {' | '.join(cells)} |")
    largest = max(r for by_model in results.values() for r, _ in by_model.values())
    print()
    print(
        f"{months} months, largest rate {largest:.2%}; {total_worse / total_nights:.3f} readings called worse a night"
    )


if __name__ == "__main__":
    main()
