"""Collecting the lines of one boot until it is over, and making a Boot of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from auditor.engine_logs.boot import Boot, BootState
from auditor.engine_logs.lines import LogLine
from auditor.engine_logs.refusals import Refusal
from auditor.engine_logs.settings import SettingsReader

_POOL = re.compile(r"(?:\w+) KV cache size: (?P<tokens>[\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for (?P<context>[\d,]+) tokens per request: (?P<times>\d+(?:\.\d+)?)x")
_BLOCKS = re.compile(r"# (?P<device>\w+) blocks: (?P<blocks>\d+)")
_BLOCK_COUNT = re.compile(r"(?:after num_gpu_blocks is: |with num_gpu_blocks_override=)(?P<blocks>\d+)")
_AVAILABLE = re.compile(r"Available KV cache memory: (?P<gib>-?\d+(?:\.\d+)?) ?GiB")
_CPU = re.compile(r"(?P<how>Auto|Explicitly) set \((?P<gib>\d+(?:\.\d+)?)/(?P<total>\d+(?:\.\d+)?)\) GiB for KV cache")
_RESERVED = re.compile(r"reserved (?P<gib>\d+(?:\.\d+)?) GiB memory for KV Cache as specified")
_RESULTS = re.compile(
    r"Memory profiling results: total_gpu_memory=(?P<total>\d+(?:\.\d+)?)GiB.*?"
    r"peak_torch_memory=(?P<peak>\d+(?:\.\d+)?)GiB"
    r".*?non_torch_memory=(?P<other>-?\d+(?:\.\d+)?)GiB kv_cache_size=(?P<gib>-?\d+(?:\.\d+)?)GiB"
    r"(?: gpu_memory_utilization=(?P<share>\d+(?:\.\d+)?))?"
)
_PEAK_ALONE = re.compile(r"peak_torch_memory=(?P<peak>\d+(?:\.\d+)?)GiB")
_TOTAL = re.compile(
    r"total_gpu_memory \((?P<total>\d+(?:\.\d+)?)GiB\) x gpu_memory_utilization \((?P<share>\d+(?:\.\d+)?)\)"
)
_PARTS = re.compile(
    r"model weights take (?P<weights>\d+(?:\.\d+)?)GiB; ?non_torch_memory takes (?P<other>-?\d+(?:\.\d+)?)GiB; ?"
    r"PyTorch "
    r"activation"
    r" peak memory takes (?P<peak>\d+(?:\.\d+)?)GiB; ?the rest of the memory reserved for KV Cache is "
    r"(?P<gib>-?\d+(?:\.\d+)?)GiB"
)
_ACTUAL = re.compile(
    r"\((?P<free>\d+(?:\.\d+)?)/(?P<total>\d+(?:\.\d+)?) GiB\) on startup\. Desired GPU memory utilization is "
    r"\((?P<share>\d+(?:\.\d+)?), .*"
    r"Actual usage is (?P<weights>\d+(?:\.\d+)?) GiB for weight, (?P<peak>\d+(?:\.\d+)?) GiB for peak activation, "
    r"(?P<other>-?\d+(?:\.\d+)?) GiB for non-torch memory"
)
_SGLANG_TOKENS = re.compile(r"max_total_num_tokens=(?P<tokens>\d+), (?:chunked|max_prefill)")
_SGLANG_SIZE = re.compile(
    r"KV Cache is allocated\..*?#tokens: (?P<tokens>\d+), (?:K size: (?P<k>\d+(?:\.\d+)?) GB, V size: "
    r"(?P<v>\d+(?:\.\d+)?) GB"
    r"|KV size: (?P<kv>\d+(?:\.\d+)?) GB)"
)
_UP = re.compile(r"init engine \(|Application startup complete|fired up and ready to roll")
_USUAL_BLOCKS = (16, 8, 32, 64, 128, 1, 256)
_NOT_LINEAR = frozenset({"hybrid_block", "padding_layers"})
_BY_HAND = frozenset({"pool_overridden", "pool_by_hand"})


class Draft:
    """A boot being read. ``feed`` takes its lines, ``finish`` makes the Boot."""

    def __init__(self, *, file: str, line: int, source: str) -> None:
        self.file, self.line, self.source = file, line, source
        self.reader = SettingsReader()
        self.starts: set[str] = set()
        self.configured: set[str] = set()
        self.refusal: Refusal | None = None
        self.up = False
        self.has_profile = False
        self._pools: dict[str, int] = {}
        self._concurrency: tuple[int, float] | None = None
        self._gib: list[float] = []
        self._blocks: int | None = None
        self._terms: dict[str, float] = {}
        self._remarks: dict[str, tuple[int, str, int]] = {}
        self._by_hand = False

    @property
    def has_pool(self) -> bool:
        return bool(self._pools) or self._blocks is not None

    @property
    def is_over(self) -> bool:
        return self.up or self.refusal is not None

    def remark(self, name: str, line: int, words: str) -> None:
        first, held, count = self._remarks.get(name, (line, words, 0))
        self._remarks[name] = (first, words if name == "preempted" else held, count + 1)

    def refuse(self, refusal: Refusal) -> None:
        """Keep the refusal that says most; of several with numbers the tightest."""
        held = self.refusal
        vague = ("unknown", "out_of_memory")
        if held is None or (held.kind in vague and refusal.kind not in vague):
            self.refusal = refusal
        elif held.kind == refusal.kind and None not in (held.available_gib, refusal.available_gib):
            if (refusal.available_gib or 0.0) < (held.available_gib or 0.0):
                self.refusal = refusal
        elif held.kind == "unknown" and refusal.kind == "out_of_memory":
            self.refusal = refusal

    def feed(self, line: LogLine) -> None:
        text = line.text
        self.reader.feed(text, line.number)
        if _UP.search(text):
            self.up = True
        if found := _POOL.search(text):
            self._pool(line.process, int(found["tokens"].replace(",", "")))
        if found := _CONCURRENCY.search(text):
            context, times = int(found["context"].replace(",", "")), float(found["times"])
            if self._concurrency is None or times < self._concurrency[1]:
                self._concurrency = (context, times)
        if found := _BLOCKS.search(text):
            self._blocks = int(found["blocks"])
        elif found := _BLOCK_COUNT.search(text):
            self._blocks = self._blocks or int(found["blocks"])
        if found := _SGLANG_TOKENS.search(text):
            self._pool(line.process, int(found["tokens"]))
        self._memory(text)

    def _pool(self, process: str, tokens: int) -> None:
        self._pools[process] = min(tokens, self._pools.get(process, tokens))

    def _memory(self, text: str) -> None:
        for pattern in (_RESULTS, _PARTS, _AVAILABLE, _CPU, _RESERVED):
            if found := pattern.search(text):
                self._gib.append(float(found["gib"]))
                break
        if found := _SGLANG_SIZE.search(text):
            self._gib.append(float(found["kv"]) if found["kv"] else float(found["k"]) + float(found["v"]))
        for pattern in (_RESULTS, _TOTAL, _PARTS, _ACTUAL, _CPU, _PEAK_ALONE):
            if found := pattern.search(text):
                groups = {name: value for name, value in found.groupdict().items() if value is not None}
                self._by_hand = self._by_hand or groups.get("how") == "Explicitly"
                for name in ("total", "share", "peak", "other", "weights"):
                    if name in groups:
                        self._terms[name] = float(groups[name])
                if "weights" in groups and "peak" in groups:  # these releases print them apart
                    self._terms["peak"] = float(groups["weights"]) + float(groups["peak"])
                self.has_profile = True
                break

    def _block_size(self) -> int | None:
        stated = self.reader.value("block_size")
        if isinstance(stated, int):
            return stated
        if not self._blocks:
            return None
        refusal = self.refusal
        if refusal and refusal.available_tokens and refusal.available_tokens % self._blocks == 0:
            return refusal.available_tokens // self._blocks
        if len(self._pools) == 1 and "hybrid_block" not in self._remarks:
            tokens = next(iter(self._pools.values()))
            return tokens // self._blocks if tokens % self._blocks == 0 else None
        if self._concurrency and self._concurrency[0] > 0:
            context, times = self._concurrency
            fits = [b for b in _USUAL_BLOCKS if abs(self._blocks * b / context - times) <= 0.0051]
            return fits[0] if len(fits) == 1 else None
        return None

    def _pool_tokens(self, block: int | None) -> int | None:
        if self._pools:
            return min(self._pools.values())
        if self._blocks is not None and block is not None and self.reader.engine != "sglang":
            return self._blocks * block
        return None

    def _state(self, pool: int | None) -> tuple[BootState, Refusal | None, str | None]:
        if self.refusal is not None and not self.up:
            return "refused", self.refusal, None
        if self.up:
            return "started", None, None
        if self.starts or self._concurrency is None:
            return "incomplete", None, "the log ends before the engine was up: cut off, or still starting"
        context, times = self._concurrency
        if times >= 1.0:
            return (
                "started",
                None,
                "only an excerpt: the pool holds one full request, no line says the server came up",
            )
        words = f"the pool holds {times:g} requests of {context:,} tokens"
        explanation = f"{words}: vLLM refuses to start below one. Shorten the context or enlarge the pool."
        refusal = Refusal("pool_below_context", self.line, words, explanation, context, available_tokens=pool)
        return "refused", refusal, None

    def finish(self) -> Boot | None:
        """The boot, or None where the lines were too few to call it one."""
        settings = self.reader.settings()
        if not (settings or self.has_pool or self.refusal or self.has_profile or self.starts):
            return None
        block = self._block_size()
        pool = self._pool_tokens(block)
        state, refusal, note = self._state(pool)
        context = self.reader.value("context")
        if context is None and self._concurrency:
            context = self._concurrency[0]
        if context is None and refusal:
            context = refusal.context
        share = self.reader.value("gpu_memory_utilization")
        version = settings.get("engine_version")
        engine = self.reader.engine or ("vllm" if self.has_pool or refusal or self.has_profile else None)
        boot = Boot(
            file=self.file,
            line=self.line,
            source=self.source,
            engine=engine,
            version=str(version.value) if version else None,
            state=state,
            settings=settings,
            kv_pool_tokens=pool,
            max_concurrency=self._concurrency[1] if self._concurrency else None,
            concurrency_context=self._concurrency[0] if self._concurrency else None,
            kv_gib=min(self._gib) if self._gib else None,
            block_size_tokens=block,
            max_model_len=int(context) if isinstance(context, int | float) else None,
            refusal=refusal,
            remarks=tuple(self._remarks),
            engines=max(1, sum("DP" in process for process in self._pools)),
            core=self.reader.core or ("V0" if self._blocks and not self._pools else None),
            total_gib=self._terms.get("total"),
            utilization=self._terms.get("share") or (float(share) if isinstance(share, int | float) else None),
            peak_gib=self._terms.get("peak"),
            non_torch_gib=self._terms.get("other"),
            hybrid=bool(_NOT_LINEAR & set(self._remarks)),
            by_hand=self._by_hand or bool(_BY_HAND & set(self._remarks)),
            identity=self.reader.identity(),
        )
        return replace(boot, warnings=tuple(self._warnings(boot, note)))

    def _warnings(self, boot: Boot, note: str | None) -> Iterable[str]:
        if note:
            yield note
        known = ("engine_died", "context_override") if boot.refusal else ()
        for name, (line, words, count) in self._remarks.items():
            if name in known and (name == "engine_died" or boot.refusal.kind == "context_over_model"):  # type: ignore[union-attr]
                continue
            yield f"line {line}: {words}" + (f" (said {count} times)" if count > 2 else "")
        if boot.pools_disagree:
            yield (
                f"the printed pool ({boot.kv_pool_tokens:,} tokens) and the printed concurrency "
                f"({boot.max_concurrency:g}x of {boot.concurrency_context:,} = "
                f"{boot.pool_from_concurrency:,}) disagree: "
                "not every token of this model costs the same, so neither may be turned into bytes per token"
            )
        if boot.engines > 1 and boot.kv_pool_tokens is not None:
            total = sum(self._pools.values())
            yield f"{boot.engines} data-parallel engines, each with its own pool; together {total:,} tokens"
        threshold, budget = self.reader.value("threshold"), self.reader.value("budget")
        if isinstance(threshold, int) and isinstance(budget, int) and 0 < threshold < budget:
            yield (
                f"the long-prefill threshold cuts every long prompt's chunk to {threshold:,} tokens: a budget of "
                f"{budget:,} buys one prompt nothing that {threshold:,} would not, and its memory comes out of the pool"
            )
