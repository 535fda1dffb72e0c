"""Does decode run near the memory bandwidth?

Premise: decode runs near the memory bandwidth: at least half of the accelerator's peak.

Why it matters: a decode step reads every weight once, so a step cannot be shorter than weights / bandwidth. Near that
limit only fewer bytes (quantization, speculation, larger batches) help; far from it the time goes elsewhere, and faster
memory would buy little.

How it is measured: memory_bandwidth_share: the engine's own estimate of bytes read per wall second over the peak that
--peak-gbytes-per-second or --accelerator gives; without estimates, weights (--parameters, --precision) over the length
of a step without prefill. Holds from 0.5 on, broken where even the time in which steps ran gives less.

When it misleads: with a mixture of experts a step reads the experts that its batch touches, and a hybrid model reads
states instead of a growing KV cache. One published roofline that counted experts alone predicted the opposite of what
was measured. Figures from weights leave the KV cache out. Idle time lowers the engine's estimate. Tensor parallelism
spreads the weights: give one device's part.

What to do: holds: fewer bytes a token (weights or KV in fewer bits, speculation at small batches). Broken: look at
batch size, host overhead between steps and what else shares the steps, before buying bandwidth.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, judge, percent, verdict
from auditor.model import Example, Options, Reading, Readings, Verdict, VerdictWord

PREMISE = "decode runs near the memory bandwidth"
QUESTION = "Near the memory bandwidth?"
NEEDS = ("memory_bandwidth_share", "arithmetic_share")
LIMIT = 0.5

_PAGE = {
    "estimated_read_bytes": 1.2e13,
    "finished_requests": {"stop": 100},
    "prompt_tokens": 10_000.0,
    "generation_tokens": 2_100.0,
    "ttft_seconds": {"buckets": {0.04: 100}, "sum": 3.0, "count": 100},
    "prefill_seconds": {"buckets": {0.3: 100}, "sum": 2.5, "count": 100},
    "decode_seconds": {"buckets": {0.5: 100}, "sum": 40.0, "count": 100},
    "output_length_tokens": {"buckets": {50.0: 100}, "sum": 2_100.0, "count": 100},
    "itl_seconds": {"buckets": {0.025: 2000}, "sum": 40.0, "count": 2000},
    "step_tokens": {"buckets": {1.0: 2000, 128.0: 100}, "sum": 12_000.0, "count": 2100},
}
EXAMPLES = (
    Example(
        "holds",
        "12 TB read in a minute, 200 GB/s, on a device with 273: 73 %.",
        _PAGE,
        settings={"peak_gbytes_per_second": 273.0, "budget": 2048.0},
    ),
    Example(
        "broken",
        "The same on a device with 3,350: 6 % of the peak, at most 9 % while steps ran.",
        _PAGE,
        settings={"accelerator": "H100-SXM", "budget": 2048.0},
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    memory, arithmetic = (readings.get(name) for name in NEEDS)
    word: VerdictWord
    steps: tuple[str, ...] = ()
    if memory is None or memory.state == "not_exported":
        word = "not_applicable"
        summary = (memory.reason if memory is not None else None) or "no peak given"
    else:
        word, why = judge(memory, options, at_least=LIMIT)
        summary = _words(memory)
        if max(memory.low or 0.0, memory.value or 0.0) > 1:
            word = "undecided"
            why = "above 1: a step does not read all of this model (a mixture of experts?), or the peak is another's"
            steps = ("give the parameters that a step reads, and the peak of one device",)
        if word not in ("holds", "broken"):
            summary += f"; {why}"
        if arithmetic is not None and (arithmetic.value is not None or arithmetic.state == "bounded"):
            summary += f"; arithmetic {_words(arithmetic)}"
    if word == "broken":
        steps = ("look at batch size and host overhead between steps before memory bandwidth",)
    return verdict(
        "roofline",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected=f"at least {LIMIT:g}",
        found=found_words(memory),
        uses=NEEDS,
        flags=("too_few_requests", "counter_reset"),
        next=steps,
    )


def _words(reading: Reading) -> str:
    if reading.value is not None:
        return f"{percent(reading.value)} of peak"
    if reading.state != "bounded":
        return reading.reason or reading.state
    if reading.high is None:
        return f"at least {percent(reading.low)} of peak"
    return f"{percent(reading.low)} to {percent(reading.high)} of peak"
