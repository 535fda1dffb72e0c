"""A number in somebody's notes, held against the readings: which one is it, and is that what its name says?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from auditor.model import Claim, Reading, Readings

WITHIN = 0.10


@dataclass(frozen=True)
class Kind:
    """What a claim's name means, and what it is often mistaken for. The right reading comes first."""

    right: str
    same: tuple[str, ...]
    mistaken: tuple[str, ...]


CLAIMS: Mapping[str, Kind] = {
    "prefill_rate": Kind(
        "computed_tokens_per_prefill_request_second",
        ("peak_computed_tokens_per_prefill_request_second",),
        ("prompt_tokens_per_wall_second", "generation_tokens_per_wall_second"),
    ),
    "decode_rate": Kind(
        "generation_tokens_per_wall_second",
        (),
        ("prompt_tokens_per_wall_second", "computed_tokens_per_prefill_request_second"),
    ),
    "hit_share": Kind(
        "prefix_hit_share",
        (),
        ("lookup_hit_share", "device_hit_share", "host_hit_share", "external_hit_share"),
    ),
    "prefill_share": Kind("prefill_share", (), ("decode_share", "queue_share")),
    "tokens_per_step": Kind("tokens_per_step", (), ("step_tokens",)),
    "length_share": Kind("length_share", (), ("length_share_large_cap", "stop_share", "short_cap_share")),
}


def _is_near(claimed: float, reading: Reading) -> bool:
    if reading.value is not None:
        return abs(claimed - reading.value) <= WITHIN * max(abs(reading.value), 1e-12)
    if reading.state == "bounded" and reading.low is not None and reading.high is not None:
        # Inside limits only where they are narrow enough that any value in them is near.
        return reading.high * (1 - WITHIN) <= claimed <= reading.low * (1 + WITHIN)
    return False


def _may_be(claimed: float, reading: Reading) -> bool:
    if reading.state != "bounded":
        return False
    low = -math.inf if reading.low is None else reading.low
    high = math.inf if reading.high is None else reading.high
    return low * (1 - WITHIN) <= claimed <= high * (1 + WITHIN)


def check_claims(readings: Readings, claims: Mapping[str, float]) -> tuple[Claim, ...]:
    """Say of each claimed number which readings it equals within 10 %, and whether its name is right."""
    return tuple(_check(readings, name, value) for name, value in claims.items())


def _check(readings: Readings, name: str, claimed: float) -> Claim:
    kind = CLAIMS[name]
    candidates = (kind.right, *kind.same, *kind.mistaken)
    matches = tuple(c for c in candidates if (r := readings.get(c)) is not None and _is_near(claimed, r))
    right = readings[kind.right]
    verdict: bool | None
    if set(matches) & {kind.right, *kind.same}:
        verdict = True
    elif _may_be(claimed, right):
        verdict = None
    elif matches or right.has_value or right.state == "bounded":
        verdict = False
    else:
        verdict = None
    return Claim(
        name,
        claimed,
        matches,
        verdict,
        (kind.right, right.value),
        _words(name, claimed, matches, verdict, right),
    )


def _words(name: str, claimed: float, matches: tuple[str, ...], verdict: bool | None, right: Reading) -> str:
    if right.value is not None:
        beside = f"{right.name} is {right.value:.4g} {right.unit}"
    elif right.state == "bounded":
        low, high = ("?" if v is None else f"{v:.4g}" for v in (right.low, right.high))
        beside = f"{right.name} lies between {low} and {high} {right.unit}"
    else:
        beside = f"{right.name} has no value here: {right.reason or right.state}"
    if verdict is True:
        return f"{name} {claimed:g} is {', '.join(matches)}, as its name says"
    if verdict is None and right.state == "bounded":
        return f"{name} {claimed:g} cannot be told from this window: {beside}"
    if matches:
        return f"{name} {claimed:g} is {', '.join(matches)}: not a {name.replace('_', ' ')}; {beside}"
    return f"{name} {claimed:g} is no reading of this window; {beside}"
