"""Log lines -> boots: where one ends and the next begins, with several ranks, pods and boots in a file."""

from __future__ import annotations

import re

from auditor.engine_logs.boot import Boot
from auditor.engine_logs.drafting import Draft
from auditor.engine_logs.lines import LogLine
from auditor.engine_logs.refusals import read_refusal
from auditor.engine_logs.remarks import read_remark
from auditor.engine_logs.settings import ARGUMENT_LINE, CONFIG_LINE

_BANNER = re.compile(r"API server version \d|vLLM server version|█\s+version \d")
_ARM = re.compile(r"^# arm \w+=")
_PROFILE = re.compile(r"Memory profiling (?:results|takes)")
_ANY = re.compile(
    r"KV [cC]ache|blocks: \d|Maximum concurrency|Memory profiling|model weights take|total_gpu_memory \("
    r"|attention block size|page size|batched_tokens|max model len|max_total_num_tokens=|peak_torch_memory="
    r"|partial prefills|num_gpu_blocks"
)
_UP = re.compile(r"init engine \(|Application startup complete|fired up and ready to roll")
_RUNNING = re.compile(r"throughput")
_BEFORE_BANNER = "api_servers"
_MOST_BOOTS = 10_000


class BootReader:
    """Takes the lines of one log in order; ``finish`` gives its boots in order of their first lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._open: dict[str, Draft] = {}
        self._done: list[Boot] = []
        self._pending: dict[str, list[tuple[str, int, str]]] = {}

    def feed(self, line: LogLine) -> None:
        text = line.text
        if _RUNNING.search(text):
            draft = self._open.get(line.source)
            if draft is not None and draft.refusal is None:
                draft.up = True
            return
        kind = self._kind(text)
        refusal = read_refusal(text, line.number, level=line.level) if kind is None else None
        if kind is None and refusal is None and not _ANY.search(text):
            self._notice(line)
            return
        draft = self._open.get(line.source)
        if draft is None or self._begins(draft, kind, line, refusal is not None):
            vague = refusal is not None and refusal.kind in ("unknown", "out_of_memory")
            if draft is not None and vague:
                draft.remark("engine_died", line.number, "the engine or one of its workers died")
                return
            draft = self._start(line)
        if kind is not None:
            draft.starts.add(kind)
            if kind == "config":
                draft.configured.add(line.process)
            if kind == "arm":  # a heading somebody wrote above an excerpt: "# arm max_model_len=20000"
                draft.starts.discard(kind)
                line = line._replace(text=", ".join(text.split("(")[0].split()).replace("#, arm, ", "# arm "))
        draft.feed(line)
        if refusal is not None:
            draft.refuse(refusal)
        if found_remark := read_remark(text):
            draft.remark(found_remark[0], line.number, found_remark[1])

    def _notice(self, line: LogLine) -> None:
        draft = self._open.get(line.source)
        if _UP.search(line.text):
            if draft is not None and draft.refusal is None:
                draft.up = True
            return
        remark = read_remark(line.text)
        if remark is None:
            return
        if draft is None or (remark[0] == _BEFORE_BANNER and draft.is_over):
            held = self._pending.setdefault(line.source, [])
            if len(held) < 20:
                held.append((remark[0], line.number, remark[1]))
        else:
            draft.remark(remark[0], line.number, remark[1])

    @staticmethod
    def _kind(text: str) -> str | None:
        if _ARM.match(text):
            return "arm"
        if ARGUMENT_LINE.search(text):
            return "args"
        if CONFIG_LINE.search(text):
            return "config"
        return "banner" if _BANNER.search(text) else None

    @staticmethod
    def _begins(draft: Draft, kind: str | None, line: LogLine, refuses: bool) -> bool:
        """Whether this line belongs to the next boot."""
        if kind == "arm":
            return True
        if kind == "banner":
            return bool(draft.starts) or draft.has_pool or draft.is_over
        if kind == "args":
            return bool(draft.starts & {"args", "config"}) or draft.has_pool or draft.is_over
        if kind == "config":
            if line.process in draft.configured:
                return True
            return not draft.configured and (draft.has_pool or draft.is_over)
        if refuses:
            numbers = read_refusal(line.text, line.number, level=line.level)
            held = draft.refusal
            if draft.up:
                return True
            excerpt = not draft.starts and held is not None and numbers is not None
            return bool(
                excerpt
                and held
                and numbers
                and (held.context, held.needed_gib, held.available_gib, held.available_tokens)
                != (numbers.context, numbers.needed_gib, numbers.available_gib, numbers.available_tokens)
            )
        if _PROFILE.search(line.text):
            return draft.has_pool or draft.is_over
        return draft.is_over and "KV cache size" in line.text

    def _start(self, line: LogLine) -> Draft:
        self._close(line.source)
        draft = Draft(file=self.file, line=line.number, source=line.source)
        for name, number, words in self._pending.pop(line.source, []):
            draft.remark(name, number, words)
        self._open[line.source] = draft
        return draft

    def _close(self, source: str) -> None:
        draft = self._open.pop(source, None)
        boot = draft.finish() if draft else None
        if boot is not None and len(self._done) < _MOST_BOOTS:
            self._done.append(boot)

    def finish(self) -> tuple[Boot, ...]:
        for source in list(self._open):
            self._close(source)
        return tuple(sorted(self._done, key=lambda boot: boot.line))
