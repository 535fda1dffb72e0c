"""A page of a large fleet behind one address, made from a real page of one engine.

    python -m tests.benchmarks.big_page /tmp/big.prom     writes it
    python -m tests.benchmarks.big_page                   times both parsers on it

The engine's lines of fixtures/pages/vllm-0.32.0.prom are repeated for 560 engines: about 190,000 samples
and 20 MB. The ``_created`` lines are left out, as a server run with PROMETHEUS_DISABLE_CREATED_SERIES=true
leaves them out. Sums differ from engine to engine, as they would: a page of few distinct numbers would
flatter a parser that remembers them.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

FIXTURE = Path(__file__).parents[2] / "fixtures" / "pages" / "vllm-0.32.0.prom"
ENGINES = 560
MODEL = "meta-llama/Llama-3.1-8B"


def make_big_page(engines: int = ENGINES) -> bytes:
    """One page with the engine's families of the fixture for each of ``engines``; other families once."""
    page: list[str] = []
    family: list[str] = []
    for line in [*FIXTURE.read_text().splitlines(), "# end"]:
        name = re.split(r"[{ ]", line, maxsplit=1)[0]
        if name.startswith("vllm:"):
            if not name.endswith("_created"):
                family.append(line.replace('model_name="tiny"', f'model_name="{MODEL}"'))
            continue
        for engine in range(engines):
            page += [_move_to_engine(sample, engine) for sample in family]
        family = []
        if not line.endswith(("# end", "_created gauge")) and "_created " not in line:
            page.append(line)
    return ("\n".join(page) + "\n").encode()


def _move_to_engine(line: str, engine: int) -> str:
    line = line.replace('engine="0"', f'engine="{engine}"')
    head, _, value = line.rpartition(" ")
    if "_sum{" in head:
        return f"{head} {float(value) * (1 + engine / 1000)!r}"
    return line


def measure_cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds of the fastest of ``repeats`` runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    body = make_big_page()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_bytes(body)
        return
    from prometheus_client.parser import text_string_to_metric_families

    from auditor.sources.exposition import parse_page

    text = body.decode()
    megabytes = len(body) / 1e6
    print(f"{megabytes:.1f} MB, {parse_page(body).samples_read} samples")
    library = measure_cpu_seconds(lambda: [family.samples for family in text_string_to_metric_families(text)], 1)
    runs: dict[str, Callable[[], object]] = {
        "all samples": lambda: parse_page(body),
        "vllm: only": lambda: parse_page(body, wanted=lambda name: name.startswith("vllm:")),
        "no buckets": lambda: parse_page(body, wanted=lambda name: not name.endswith("_bucket")),
        "none": lambda: parse_page(body, wanted=lambda name: False),
    }
    print(f"{'prometheus-client':20} {library:6.3f} CPU s {megabytes / library:7.1f} MB/s")
    for name, work in runs.items():
        seconds = measure_cpu_seconds(work)
        print(f"{name:20} {seconds:6.3f} CPU s {megabytes / seconds:7.1f} MB/s {library / seconds:5.1f}x")


if __name__ == "__main__":
    main()
