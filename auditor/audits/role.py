"""Does this page show the whole service?

Premise: this page shows the whole service, not one node of a disaggregated pair.

Why it matters: with prefill on one node and decode on another, each page shows half of every request. The decode
node computes almost no prompt tokens and its prefill time is a transfer; the prefill node caps every answer at one
token. Judged alone, each looks broken in its own way.

How it is measured: the share of prompt tokens whose KV came from outside (external_kv_transfer among the prompt
tokens by source) is below 0.5, and it is no pure prefill node: every request capped at one token, with a KV
connector's series on the page. Both break the premise; shares need --min-requests requests.

When it misleads: a shared KV store between equal replicas moves KV too, and each page may still be whole. A service
that only classifies caps at one token without being half of anything: without a connector it is not called a
prefill node.

What to do: audit the nodes' pages together, as one fleet with --by all, and read time and cache premises from the
node they belong to: prefill from prefill nodes, decode from decode nodes.
"""

from __future__ import annotations

from auditor.audits.judging import percent, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "this page shows the whole service"
QUESTION = "Is this the whole service?"
NEEDS = ("prompt_tokens", "computed_prompt_tokens", "external_hit_share", "finished_requests")
LIMIT = 0.5

EXAMPLES = (
    Example(
        "holds",
        "Every prompt token was computed here or found in this engine's own cache.",
        {
            "finished_requests": {"stop": 100},
            "prompt_tokens": 80_000.0,
            "prompt_tokens_by_source": {
                "local_compute": 60_000.0,
                "local_cache_hit": 20_000.0,
                "external_kv_transfer": 0.0,
            },
        },
    ),
    Example(
        "broken",
        "79,000 of 80,000 prompt tokens came by KV transfer: a decode node.",
        {
            "finished_requests": {"stop": 100},
            "prompt_tokens": 80_000.0,
            "prompt_tokens_by_source": {
                "local_compute": 1_000.0,
                "local_cache_hit": 0.0,
                "external_kv_transfer": 79_000.0,
            },
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    share = readings.facts.get("external_kv_share")
    word, summary = _judge(readings, share, options)
    steps: tuple[str, ...] = ()
    if word == "broken":
        steps = ("audit the other node's page too; read prefill from prefill nodes and decode from decode nodes",)
    elif word == "undecided":
        steps = ("audit a longer window, or one with traffic",)
    return verdict(
        "role",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected=f"external KV share below {LIMIT:g}, and no pure prefill node",
        found="not known" if share is None else f"external KV share {shown(share)}",
        uses=NEEDS,
        flags=("decode_node", "prefill_node", "no_traffic", "too_few_requests", "lifetime_only"),
        next=steps,
    )


def _judge(readings: Readings, share: float | None, options: Options) -> tuple[VerdictWord, str]:
    if readings.has_flag("prefill_node"):
        return "broken", f"a prefill node: {readings.facts['prefill_node']}"
    if readings.has_flag("decode_node") and not share:
        return "broken", f"a decode node: {readings.facts['decode_node']}"
    if "external_kv_share" not in readings.facts:
        return "not_applicable", "the page has no prompt tokens by source"
    if share is None:
        return "undecided", "no prompt token in the window"
    came = f"{percent(share)} of prompt tokens came by KV transfer"
    events = max(readings.value("finished_requests") or 0.0, readings.value("first_tokens") or 0.0)
    if events < options.min_requests:
        return "undecided", f"{came}; only {shown(events)} requests behind it"
    if share >= LIMIT:
        return "broken", f"{came}: " + ("a decode node" if readings.has_flag("decode_node") else "prefill is shared")
    return "holds", came if share else "no prompt token came by KV transfer"
