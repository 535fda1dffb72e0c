"""The settings an engine says it runs with, each with the line that says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from auditor.engine_logs.arguments import Value, pick_number, read_arguments
from auditor.model import Setting

ARGUMENT_LINE = re.compile(
    r"(?:non-default args: |server_args=|^# arm |(?<![-\w])args: (?=Namespace\())(?P<dump>.*)$", re.DOTALL
)
CONFIG_LINE = re.compile(
    r"Initializing an? (?:(?P<core>V[01]) )?LLM engine \(v(?P<version>[^)]+)\) with config: (?P<dump>.*)$",
    re.DOTALL,
)
_VERSION = re.compile(r"(?:API server version|vLLM server version|█\s+version) v?(?P<version>\d[\w.+-]*)")
_CHUNKED = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_PARTIAL = re.compile(r"Concurrent partial prefills enabled .*long_prefill_token_threshold=(\d+)")
_MAX_LEN = re.compile(r"Using max model len (\d+)")
_HYBRID_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")
_ENDPOINTS = re.compile(r"'?compile_ranges_endpoints'?\s*[:=]\s*\[([\d, ]+)\]")
_DRAFT = re.compile(r"num_spec(?:ulative)?_tokens=(\d+)")
_SGLANG_POOL = re.compile(
    r"max_total_num_tokens=(?P<pool>\d+), (?:chunked_prefill_size=(?P<chunk>-?\d+|None), )?"
    r"max_prefill_tokens=(?P<most>\d+), max_running_requests=(?P<seats>\d+), context_len=(?P<context>\d+)"
)

_POSITIVE = frozenset({"budget", "seats", "context", "block_size", "gpu_memory_utilization"})
"""Zero, minus one and the like stand for "you choose" in these."""
_RANK = {"resolved": 3, "stated": 2, "default": 1}
_NOISE = re.compile(
    r"^(host|port|uds|model_tag|served_model_name|api_server_count|log_|disable_log|enable_log|uvicorn|root_path"
    r"|ssl|allow_|chat_template|response_role|tool_|reasoning_|enable_metrics|show_hidden|otlp|random_seed|seed"
    r"|decode_log_interval|dist_init_addr|nccl_port|watchdog|dispatch_function|subparser|config$|headless"
    r"|max_log_len|middleware|return_tokens|lora_modules|prompt_adapters|warmups|skip_server_warmup|weight_version)"
)


class SettingsReader:
    """Collects settings from the lines of one boot. What an engine resolved wins over what it was told,
    and that over a default that follows from what was not said."""

    def __init__(self) -> None:
        self.engine: str | None = None
        self.core: str | None = None
        self.arguments: dict[str, Value] = {}
        self.arguments_line: int | None = None
        self._found: dict[str, tuple[int, Setting]] = {}

    def feed(self, text: str, line: int) -> bool:
        """Read one line; True where it told something."""
        before = len(self._found), self.engine
        for handler in (self._version, self._arguments, self._config, self._vllm, self._sglang):
            handler(text, line)
        return (len(self._found), self.engine) != before

    def settings(self) -> dict[str, Setting]:
        return {name: setting for name, (_, setting) in sorted(self._found.items())}

    def value(self, name: str) -> float | str | bool | None:
        entry = self._found.get(name)
        return None if entry is None else entry[1].value

    def _put(self, name: str, value: float | str | bool | None, line: int, rank: str, note: str = "") -> None:
        if value is None or (name in _POSITIVE and not isinstance(value, str) and value <= 0):
            return
        held = self._found.get(name)
        if held is not None and held[0] > _RANK[rank]:
            return
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        source = f"boot log line {line}" + (f" ({note})" if note else "")
        if held is not None and held[0] == _RANK[rank] and held[1].value == value:
            return
        self._found[name] = (_RANK[rank], Setting(value, source))

    def _version(self, text: str, line: int) -> None:
        if found := _VERSION.search(text):
            self.engine = self.engine or "vllm"
            self._put("engine_version", found["version"], line, "stated")

    def _arguments(self, text: str, line: int) -> None:
        found = ARGUMENT_LINE.search(text)
        if not found:
            return
        self.engine = "sglang" if "server_args=" in text[:200] else "vllm"
        arguments = read_arguments(found["dump"])
        self.arguments, self.arguments_line = arguments, line
        if self.engine == "sglang":
            self._sglang_arguments(arguments, line)
            return
        self._common(arguments, line)
        self._put("budget", pick_number(arguments, "max_num_batched_tokens"), line, "stated")
        self._put("seats", pick_number(arguments, "max_num_seqs"), line, "stated")
        self._put("context", pick_number(arguments, "max_model_len"), line, "stated")
        self._put("block_size", pick_number(arguments, "block_size"), line, "stated")
        self._put("gpu_memory_utilization", pick_number(arguments, "gpu_memory_utilization"), line, "stated")
        draft = pick_number(arguments, "num_speculative_tokens", "num_spec_tokens")
        self._put("speculative_tokens", draft, line, "stated")
        caching = arguments.get("enable_prefix_caching")
        self._put("prefix_caching", caching if isinstance(caching, bool) else None, line, "stated")
        threshold = pick_number(arguments, "long_prefill_token_threshold")
        if threshold is not None:
            self._put("threshold", threshold, line, "stated")
        elif not text.startswith("# arm") and not (pick_number(arguments, "max_num_partial_prefills") or 0) > 1:
            self._put("threshold", 0, line, "default", "not among the arguments: off")

    def _common(self, arguments: Mapping[str, Value], line: int) -> None:
        dtype = arguments.get("kv_cache_dtype")
        self._put("kv_cache_dtype", dtype if isinstance(dtype, str) else None, line, "stated")

    def _config(self, text: str, line: int) -> None:
        found = CONFIG_LINE.search(text)
        if not found:
            return
        self.engine = "vllm"
        self.core = found["core"] or self.core or "V0"
        self._put("engine_version", found["version"], line, "resolved")
        dump = found["dump"]
        arguments = read_arguments(dump)
        self._common(arguments, line)
        self._put("context", pick_number(arguments, "max_seq_len"), line, "resolved")
        caching = arguments.get("enable_prefix_caching")
        self._put("prefix_caching", caching if isinstance(caching, bool) else None, line, "resolved")
        if "speculative_config" in arguments:
            spec = arguments["speculative_config"]
            draft = _DRAFT.search(str(spec)) if spec is not None else None
            self._put(
                "speculative_tokens",
                int(draft[1]) if draft else 0 if spec is None else None,
                line,
                "resolved",
            )
        if ends := _ENDPOINTS.search(dump):
            largest = max(int(n) for n in ends[1].split(",") if n.strip())
            self._put(
                "budget",
                largest,
                line,
                "default",
                "largest compile range, which vLLM ends at the step budget",
            )

    def _vllm(self, text: str, line: int) -> None:
        if found := _CHUNKED.search(text):
            self.engine = self.engine or "vllm"
            self._put("budget", int(found[1]), line, "resolved")
        if found := _PARTIAL.search(text):
            self._put("threshold", int(found[1]), line, "resolved")
        if found := _MAX_LEN.search(text):
            self._put("context", int(found[1]), line, "stated")
        if found := _HYBRID_BLOCK.search(text):
            self.engine = self.engine or "vllm"
            self._put("block_size", int(found[1]), line, "resolved")

    def _sglang_arguments(self, arguments: Mapping[str, Value], line: int) -> None:
        self._common(arguments, line)
        self._put("budget", self._chunk(arguments), line, "stated")
        self._put("seats", pick_number(arguments, "max_running_requests"), line, "stated")
        self._put("context", pick_number(arguments, "context_length"), line, "stated")
        self._put("block_size", pick_number(arguments, "page_size"), line, "stated")
        self._put("gpu_memory_utilization", pick_number(arguments, "mem_fraction_static"), line, "stated")
        radix = arguments.get("disable_radix_cache")
        self._put("prefix_caching", not radix if isinstance(radix, bool) else None, line, "stated")
        algorithm = arguments.get("speculative_algorithm", "")
        draft = pick_number(arguments, "speculative_num_draft_tokens")
        if algorithm is None:
            self._put("speculative_tokens", 0, line, "stated")
        elif draft is not None:
            note = f"speculative_num_draft_tokens {draft:g} counts the verified token too"
            self._put("speculative_tokens", max(0.0, draft - 1), line, "stated", note)

    @staticmethod
    def _chunk(arguments: Mapping[str, Value]) -> float | None:
        chunk = pick_number(arguments, "chunked_prefill_size")
        if chunk is not None and chunk <= 0:
            return pick_number(arguments, "max_prefill_tokens")
        return chunk

    def _sglang(self, text: str, line: int) -> None:
        found = _SGLANG_POOL.search(text)
        if not found:
            return
        self.engine = "sglang"
        self._put("context", int(found["context"]), line, "resolved")
        self._put("seats", int(found["seats"]), line, "resolved")
        chunk = found["chunk"]
        if chunk and chunk.lstrip("-").isdigit():
            self._put("budget", int(chunk) if int(chunk) > 0 else int(found["most"]), line, "resolved")

    def identity(self) -> dict[str, str]:
        """What else was asked for, so that boots can be called the same: without addresses and secrets."""
        return {
            name: str(value)
            for name, value in sorted(self.arguments.items())
            if value is not None and not _NOISE.search(name) and name not in _KNOWN_ARGUMENTS
        }


_KNOWN_ARGUMENTS = frozenset(
    {
        "max_num_batched_tokens", "max_num_seqs", "max_model_len", "max_seq_len", "block_size",
        "gpu_memory_utilization",
        "long_prefill_token_threshold", "enable_prefix_caching", "kv_cache_dtype", "num_speculative_tokens",
        "chunked_prefill_size", "max_running_requests", "context_length", "page_size", "mem_fraction_static",
        "disable_radix_cache", "speculative_num_draft_tokens",
    }
)  # fmt: skip
