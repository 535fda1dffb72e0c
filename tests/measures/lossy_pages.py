"""Pages with one histogram and one counter of children, and ways to take series off them."""

from __future__ import annotations

from typing import Any

from auditor.measures.reduce import reduce_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import SubjectReport
from tests.measures.pages import LABELS, counter, histogram, target

TTFT = "vllm:time_to_first_token_seconds"
LATER = "is on an earlier page and not on the last one"


def ttft(fast: float, slow: float, total: float, labels: str = LABELS) -> str:
    """``fast`` first tokens within half a second, ``slow`` within two."""
    return histogram("time_to_first_token_seconds", {0.5: fast, 2.0: slow}, total, labels)


def finished(**reasons: float) -> str:
    return "".join(
        counter("request_success", n, f'{LABELS},finished_reason="{reason}"') for reason, n in reasons.items()
    )


def without(page: str, *words: str) -> str:
    """The page but for the sample lines that have all these words."""
    kept = [line for line in page.splitlines(True) if line.startswith("#") or not all(word in line for word in words)]
    assert len(kept) < len(page.splitlines()), words
    return "".join(kept)


def reason(s: SubjectReport, name: str) -> str:
    return s.readings[name].reason or ""


def only_part(*pages: str) -> Any:
    """The one part of these pages; the tests know of what kind its quantities are."""
    found = target(*pages)
    (part,) = reduce_target(found, load_vocabulary().engine(found.engine or ""))
    return part


OTHER = counter("prompt_tokens", 1)
BEFORE, AFTER = OTHER + ttft(3, 1, 2.0), OTHER + ttft(8, 2, 5.0)
