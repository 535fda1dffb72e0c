"""Sample sets for the live tests: captured pages and small fleets whose increases are known by construction."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from auditor.measures.targets import build_target
from auditor.measures.vocabulary import Vocabulary
from auditor.model import Page, TargetWindow
from auditor.sources.exposition import parse_page
from tests.metrics_server.servers import Store

FIXTURES = Path(__file__).parents[2] / "fixtures"
L_SERIES = FIXTURES / "vllm/0.32.0/l-series"
RESTART = FIXTURES / "vllm/0.32.0/f-restart"
END = 1_795_900_000.0
"""A moment in the past of every test's window."""


def series_pages(vocabulary: Vocabulary) -> list[tuple[float, Page]]:
    """The captured series of 79 pages, about 2 s apart, with the moments at which they were asked for."""
    moments = [round(m["at"], 3) for m in json.loads((L_SERIES / "timestamps.json").read_text())]
    texts = [gzip.decompress(p.read_bytes()) for p in sorted(L_SERIES.glob("*.prom.gz"))]
    return [(at, parse_page(t, wanted=vocabulary.wanted)) for at, t in zip(moments, texts, strict=True)]


def restart_pages(vocabulary: Vocabulary) -> list[tuple[float, Page]]:
    """Start and end of one life of an engine, and the end of the next, put on a clock of our own.

    The last two are neighbours, as two scrapes around a restart are: 289 of 330 series fell, 7 rose.
    """
    files = [RESTART / name for name in ("boot1/before.prom", "before.prom", "after.prom")]
    start = END - 30.0
    return [(start + 15.0 * i, parse_page(f.read_bytes(), wanted=vocabulary.wanted)) for i, f in enumerate(files)]


def store_pages(pages: Iterable[tuple[float, Page]], **target: str) -> Store:
    store = Store()
    for at, page in pages:
        # A server started with default settings drops nothing; creation times would only double the load.
        kept = [(s.name, s.labels, s.value) for s in page.samples if not s.name.endswith("_created")]
        store.add_page(kept, at, **target)
    return store


def direct_target(pages: list[tuple[float, Page]], vocabulary: Vocabulary, address: str) -> TargetWindow:
    return build_target(address, list(pages), vocabulary, saved=False)


# --------------------------------------------------------------------------- fleets by construction

EDGES = {"seconds": ("0.5", "1.0", "5.0", "+Inf"), "tokens": ("10.0", "100.0", "1000.0", "+Inf")}


class Replica:
    """A replica whose every request is alike, so that each increase is requests x a number.

    A request: 100 prompt tokens of which 40 are cached, 20 generated, 0.4 s prefill, 2 s decode, 0.1 s queue,
    3 s end to end. One in four ends by length.
    """

    PROMPT, COMPUTED, GENERATED = 100, 60, 20
    PREFILL, DECODE, QUEUE, E2E = 0.4, 2.0, 0.1, 3.0

    def __init__(
        self, instance: str, *, model: str = "tiny", rank: str = "0", job: str = "vllm", started: float | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.target = {"job": job, "instance": instance, **(extra or {})}
        self.labels = {"model_name": model, "engine": rank, **self.target}
        self.started = started

    def scrape(
        self, store: Store, at: float, requests: float, *, running: float = 2, kv: float = 0.25, rate: float = 0
    ) -> None:
        """One scrape at which the process has finished so many requests."""
        n = requests

        def put(name: str, value: float, **more: str) -> None:
            store.add(f"vllm:{name}", {**self.labels, **more}, [(at, value)])

        put("prompt_tokens_total", n * self.PROMPT)
        put("generation_tokens_total", n * self.GENERATED)
        put("prompt_tokens_by_source_total", n * self.COMPUTED, source="local_compute")
        put("prompt_tokens_by_source_total", n * (self.PROMPT - self.COMPUTED), source="local_cache_hit")
        put("num_preemptions_total", 0)
        put("request_success_total", n * 0.75, finished_reason="stop")
        put("request_success_total", n * 0.25, finished_reason="length")
        put("num_requests_running", running)
        put("num_requests_waiting", 1)
        put("kv_cache_usage_perc", kv)
        store.add(
            "vllm:cache_config_info",
            {**self.target, "engine": self.labels["engine"], "block_size": "16", "enable_prefix_caching": "True",
             "kv_cache_size_tokens": "1000"},
            [(at, 1.0)],
        )  # fmt: skip
        for name, each, unit in (
            ("request_prefill_time_seconds", self.PREFILL, "seconds"),
            ("request_decode_time_seconds", self.DECODE, "seconds"),
            ("request_queue_time_seconds", self.QUEUE, "seconds"),
            ("request_inference_time_seconds", self.PREFILL + self.DECODE, "seconds"),
            ("e2e_request_latency_seconds", self.E2E, "seconds"),
            ("time_to_first_token_seconds", self.PREFILL + self.QUEUE, "seconds"),
            ("request_prompt_tokens", self.PROMPT, "tokens"),
            ("request_generation_tokens", self.GENERATED, "tokens"),
            ("request_prefill_kv_computed_tokens", self.COMPUTED, "tokens"),
        ):
            for edge in EDGES[unit]:
                put(f"{name}_bucket", n if each <= float(edge) else 0, le=edge)
            put(f"{name}_sum", n * each)
            put(f"{name}_count", n)
        store.add("up", self.target, [(at, 1.0)])
        if self.started is not None:
            store.add("process_start_time_seconds", self.target, [(at, self.started)])

    def run(
        self, store: Store, start: float, end: float, *, every: float = 15.0, per_scrape: float = 3.0,
        first: float = 300.0,
    ) -> None:  # fmt: skip
        """Scrapes from ``start`` to ``end``, with the same number of requests between two of them."""
        for i in range(round((end - start) / every) + 1):
            self.scrape(store, start + i * every, first + i * per_scrape)

    def down(self, store: Store, start: float, end: float, *, every: float = 15.0) -> None:
        """Scrapes that failed."""
        for i in range(round((end - start) / every) + 1):
            store.add("up", self.target, [(start + i * every, 0.0)])
