"""A simulated month of nights: thirty nights, three models, and four things that happened.

    python -m tests.nightly.month            writes fixtures/nights/month

- Night 9: every engine was down; nothing answered.
- Night 14: ``code`` came back as another release, which exports more and works the same.
- Night 21 and on: ``chat`` was started anew with less memory for its KV pool. Nothing failed, nothing was logged;
  prefixes are evicted before they are asked for again, and first tokens take longer.
- Saturdays and Sundays have half the traffic.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from auditor.measures.targets import build_target, failed_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import TargetWindow, Window
from auditor.saved import window_to_json
from auditor.sources.exposition import parse_page
from tests.simulator import page_text, simulate
from tests.simulator.cost import Linear
from tests.simulator.settings import Machine, VllmSetting
from tests.simulator.vllm_page import vllm_snapshots
from tests.simulator.workload import Lengths, Workload, make_workload

FOLDER = Path(__file__).parents[2] / "fixtures" / "nights" / "month"
NIGHTS = 30
FIRST_END = datetime(2027, 2, 3, 3, 0, tzinfo=UTC).timestamp()
"""End of night 1's window: 03:00 UTC on a Wednesday."""
DAY = 86_400.0
DEAD_NIGHT, UPGRADE_NIGHT, REGRESSION_NIGHT = 9, 14, 21
RUN_SECONDS = 250.0
CUT = (30.0, 230.0)
"""Moments of the two scrapes in the simulated run: engines are warm at the first."""
TOOL = "premise-auditor 0.1.0"
OLD_RELEASE_LACKS = re.compile(
    r"^vllm:(prompt_tokens_by_source|prompt_tokens_cached|request_prefill_kv_computed_tokens)[a-z_]*[ {]"
)


@dataclass(frozen=True)
class Model:
    """One engine and what it is asked."""

    name: str
    setting: VllmSetting
    rate_per_second: float
    prompts: Lengths
    outputs: Lengths
    prefix_groups: int = 0
    prefix_tokens: int = 0
    cap_tokens: int | None = None


def _machine(seed: int) -> Machine:
    law = Linear(
        base_seconds=0.012,
        stream_seconds=0.00012,
        context_seconds=2e-8,
        prefill_seconds=0.00011,
        pair_seconds=4e-9,
    )
    return Machine(law=law, jitter=0.05, seed=seed)


MODELS = (
    Model(
        "chat",
        VllmSetting(machine=_machine(1), budget=2048, seats=64, blocks=2600, max_model_len=8192),
        rate_per_second=3.0,
        prompts=Lengths(250, 0.6),
        outputs=Lengths(120, 0.7),
        prefix_groups=16,
        prefix_tokens=1024,
        cap_tokens=512,
    ),
    Model(
        "code",
        VllmSetting(machine=_machine(2), budget=4096, seats=64, blocks=8000, max_model_len=16384),
        rate_per_second=1.2,
        prompts=Lengths(1800, 0.7),
        outputs=Lengths(200, 0.8),
        cap_tokens=1024,
    ),
    Model(
        "summary",
        VllmSetting(machine=_machine(3), budget=8192, seats=32, blocks=8000, max_model_len=16384),
        rate_per_second=0.9,
        prompts=Lengths(3500, 0.4),
        outputs=Lengths(90, 0.4),
        cap_tokens=160,
    ),
)
SMALL_POOL_BLOCKS = 900


def workload_of(model: Model, night: int, *, weekend: bool, seed: int = 0) -> Workload:
    """The requests of one night: their rate varies by a few percent from night to night."""
    rng = np.random.default_rng([seed, night, len(model.name)])
    rate = model.rate_per_second * float(rng.lognormal(0, 0.04)) * (0.5 if weekend else 1)
    return make_workload(
        seed=int(rng.integers(2**31)),
        count=int(rate * RUN_SECONDS),
        prompts=model.prompts,
        outputs=model.outputs,
        rate_per_second=rate,
        cap_tokens=model.cap_tokens,
        context_tokens=model.setting.max_model_len,
        prefix_groups=model.prefix_groups,
        prefix_share=0.9 if model.prefix_groups else 0.0,
        prefix_tokens=model.prefix_tokens,
    )


def pages_of(model: Model, night: int, *, weekend: bool, blocks: int, seed: int = 0) -> tuple[str, str]:
    """The page at the start and at the end of a night's window."""
    setting = replace(model.setting, blocks=blocks, machine=replace(model.setting.machine, seed=1000 * seed + night))
    run = simulate(setting, workload_of(model, night, weekend=weekend, seed=seed))
    before, after = vllm_snapshots(run, CUT, model=model.name)
    return page_text(before), page_text(after)


def end_of(night: int) -> float:
    """Unix seconds at which the window of a night (1, 2, ...) ends."""
    return FIRST_END + (night - 1) * DAY


def is_weekend(night: int) -> bool:
    return datetime.fromtimestamp(end_of(night), tz=UTC).weekday() >= 5


def night_window(night: int) -> Window:
    """What the auditor saw of all three engines."""
    end = end_of(night)
    if night == DEAD_NIGHT:
        down = "the connection was refused; is the server up?"
        targets = [failed_target(_address(m), f"{_address(m)}: {down}") for m in MODELS]
        return Window("scrapes", None, None, None, tuple(targets), coverage=0.0, source="3 targets")
    found = tuple(_target(model, night) for model in MODELS)
    seconds = CUT[1] - CUT[0]
    return Window("scrapes", end - seconds, end, seconds, found, source="3 targets")


def _address(model: Model) -> str:
    return f"http://{model.name}:8000/metrics"


def _target(model: Model, night: int) -> TargetWindow:
    shrunk = model.name == "chat" and night >= REGRESSION_NIGHT
    upgraded = model.name == "code" and night >= UPGRADE_NIGHT
    blocks = SMALL_POOL_BLOCKS if shrunk else model.setting.blocks
    texts = pages_of(model, night, weekend=is_weekend(night), blocks=blocks)
    restarted = REGRESSION_NIGHT if shrunk else UPGRADE_NIGHT if upgraded else None
    started = end_of(restarted) - 11 * 3600 if restarted else FIRST_END - 5 * DAY
    ends = (end_of(night) - CUT[1] + CUT[0], end_of(night))
    pages = []
    for at, text in zip(ends, texts, strict=True):
        text = _started_at(text, started)
        if shrunk:
            text = text.replace('gpu_memory_utilization="0.92"', 'gpu_memory_utilization="0.55"')
        if model.name == "code" and not upgraded:
            text = "".join(line for line in text.splitlines(keepends=True) if not OLD_RELEASE_LACKS.match(line))
        pages.append((at, parse_page(text.encode(), wanted=load_vocabulary().wanted)))
    return build_target(_address(model), pages, load_vocabulary(), saved=False)


def _started_at(text: str, at: float) -> str:
    """The page of a process that was started then."""
    out = re.sub(r"^(process_start_time_seconds) .*$", rf"\1 {at!r}", text, flags=re.M)
    return re.sub(r"^(\S+_created\{.*\}) .*$", rf"\1 {at + 2!r}", out, flags=re.M)


def saved_window(night: int) -> dict[str, Any]:
    return window_to_json(night_window(night), tool=TOOL)


def file_of(night: int) -> Path:
    return FOLDER / f"night-{night:02d}.json.gz"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for night in range(1, NIGHTS + 1):
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
            file.write(json.dumps(saved_window(night), separators=(",", ":")).encode())
        file_of(night).write_bytes(buffer.getvalue())
    print(f"{NIGHTS} nights, {sum(f.stat().st_size for f in FOLDER.glob('*.gz')) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
