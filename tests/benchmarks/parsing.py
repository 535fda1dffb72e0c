"""One 20 MB page against prometheus-client's parser and ``promtool check metrics``, in CPU seconds."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator

from tests.benchmarks.big_page import make_big_page, measure_cpu_seconds
from tests.benchmarks.measuring import Row


def measure() -> Iterator[Row]:
    from prometheus_client.parser import text_string_to_metric_families

    from auditor.measures.vocabulary import load_vocabulary
    from auditor.sources.exposition import parse_page

    body = make_big_page()
    text, megabytes = body.decode(), len(body) / 1e6
    library = measure_cpu_seconds(lambda: [f.samples for f in text_string_to_metric_families(text)], 1)
    wanted = load_vocabulary().wanted
    ours = measure_cpu_seconds(lambda: parse_page(body, wanted=wanted), 5)
    count = parse_page(body).samples_read
    what = f"{megabytes:.1f} MB page, {count:,} samples"
    yield Row(
        f"{what}, MB/s",
        f"{megabytes / ours:.1f} MB/s",
        f"{megabytes / library:.1f} MB/s: prometheus-client",
        library / ours,
        "at least 10x",
        library / ours >= 10,
    )
    if shutil.which("promtool") is None:
        yield Row(
            f"{what}, MB/s", f"{megabytes / ours:.1f} MB/s", "promtool is not installed", None, "at least 2x", None
        )
        return
    tool = min(_promtool_cpu_seconds(body) for _ in range(3))
    yield Row(
        f"{what}, MB/s",
        f"{megabytes / ours:.1f} MB/s",
        f"{megabytes / tool:.1f} MB/s: promtool check metrics",
        tool / ours,
        "at least 2x",
        tool / ours >= 2,
    )


def _promtool_cpu_seconds(body: bytes) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # It ends with 3 where it has advice on names; that is no failure.
    subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
