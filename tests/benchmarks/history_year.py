"""A year of nights for fifty models: the size of the store, and how long a trend takes.

    python -m tests.benchmarks.history_year               60 readings a model
    python -m tests.benchmarks.history_year 110           as many as a report of today has, percentiles included

Printed as ratios to what is allowed: 100 MB and 50 ms.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from auditor.history import open_store
from auditor.history.views import trend

MODELS, NIGHTS, READINGS, AUDITS = 50, 365, 60, 14
ALLOWED_BYTES, ALLOWED_SECONDS = 100e6, 0.050
FIRST = 1_700_000_000.0
CONFIG = {f"label_{i}": str(i) for i in range(12)}


def make_report(chance: random.Random, readings: int) -> dict[str, Any]:
    """One night of a fleet: measured readings with intervals, some bounded, some not exported."""
    return {
        "schema": 1,
        "kind": "audit",
        "tool": "benchmark",
        "window": {
            "kind": "range", "start": None, "end": None, "seconds": 86400.0, "coverage": 1.0, "restarts": 0,
            "warnings": [], "source": "http://prometheus:9090",
        },
        "targets": [],
        "exit_code": 0,
        "subjects": [make_subject(chance, model, readings) for model in range(MODELS)],
    }  # fmt: skip


def make_subject(chance: random.Random, model: int, readings: int) -> dict[str, Any]:
    values = {"finished_requests": _reading(float(chance.randrange(90_000, 110_000)), "requests", None)}
    for i in range(1, readings):
        value = chance.lognormvariate(0, 0.1) * (i + 1)
        if i % 10 == 9:
            values[f"reading_{i}"] = _reading(None, "ratio", None) | {
                "state": "not_exported",
                "reason": f"no series {i}",
            }
        else:
            values[f"reading_{i}"] = _reading(value, "seconds", (value * 0.97, value * 1.03) if i % 2 else None)
    found = f"{chance.random():.3g} ({chance.random():.3g} .. {chance.random():.3g}, n {chance.randrange(100_000):,})"
    return {
        "labels": {"engine": "vllm", "model": f"some-organisation/some-model-{model}"},
        "flags": ["aborts_not_exported"],
        "settings": {"budget": {"value": 8192.0, "source": "flag"}},
        "readings": values,
        "audits": {
            f"audit-{i}": {"verdict": "holds", "severity": "info", "found": found} for i in range(AUDITS)
        },
        "facts": {"engine_config": CONFIG},
    }  # fmt: skip


def _reading(value: float | None, unit: str, limits: tuple[float, float] | None) -> dict[str, Any]:
    low, high = limits or (None, None)
    return {
        "state": "measured", "value": value, "unit": unit, "low": low, "high": high,
        "count": None if value is None else float(int(value * 1000)), "reason": None,
    }  # fmt: skip


def main() -> None:
    readings = int(sys.argv[1]) if len(sys.argv) > 1 else READINGS
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audits.db"
        with open_store(str(path), create=True) as store:
            append = []
            for night in range(NIGHTS):
                document = make_report(chance, readings)
                begun = time.perf_counter()
                store.append(document, end=FIRST + night * 86400, ran=FIRST + night * 86400)
                append.append(time.perf_counter() - begun)
            size = path.stat().st_size
            match = {"model": "some-organisation/some-model-7"}
            spans, computed = [], []
            for _ in range(7):
                begun, used = time.perf_counter(), time.process_time()
                (found,) = trend(store, "reading_5", match=match, nights=None, better="lower")
                spans.append(time.perf_counter() - begun)
                computed.append(time.process_time() - used)
            assert len(found["nights"]) == NIGHTS
            rows = store.query("SELECT count(*) FROM reading")[0][0]
    print(f"{rows:,} readings of {MODELS} models on {NIGHTS} nights")
    print(
        f"size    {size / ALLOWED_BYTES:.2f} of what is allowed ({size / rows:.0f} bytes a reading, verdicts included)"
    )
    print(f"trend   {min(spans) / ALLOWED_SECONDS:.2f} of what is allowed (best of {len(spans)};")
    print(f"        {min(computed) / ALLOWED_SECONDS:.2f} by processor time, which a busy machine does not stretch)")
    print(f"append  {sorted(append)[len(append) // 2] / ALLOWED_SECONDS:.1f} times a trend (median night)")


if __name__ == "__main__":
    main()
