"""What another step budget would leave: a straight line between boots that differ in the budget alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from auditor.planning.effects import find_effects
from auditor.planning.pools import KnownBoot, needed_gib, not_linear, pool_gib, setting_of
from auditor.planning.predictions import Prediction, draw_line, judge, margin_of, mean, spell


def predict_budget(boots: Sequence[KnownBoot], value: float) -> Prediction:
    def unknown(reason: str) -> Prediction:
        return Prediction("budget", value, "unknown", reason)

    known = [b for b in boots if setting_of(b, "budget") is not None]
    if not known:
        return unknown("no boot says its step budget (max_num_batched_tokens)")
    for boot in known:
        if setting_of(boot, "budget") == value and boot.state == "started":
            gib, source = pool_gib(boot, boots)
            reason = f"{boot.file} line {boot.line} booted with this budget" + (f"; GiB: {source}" if gib else "")
            floor = needed_gib(boots, setting_of(boot, "context"))
            return Prediction("budget", value, "fits", reason, gib, boot.kv_pool_tokens, floor)
    context = setting_of(known[-1], "context")
    family = [b for b in known if setting_of(b, "context") == context]
    budgets = sorted({setting_of(b, "budget") or 0.0 for b in family})
    if len(budgets) < 2:
        return unknown(
            f"all boots at a context of {spell(context)} have a budget of {spell(budgets[0])}: what a batch token "
            "costs shows only when a second budget is booted"
        )
    if confounded := _confounders(family):
        return unknown(confounded)
    floor, margin = needed_gib(boots, context), margin_of(boots)
    in_gib = _points(family, budgets, lambda b: pool_gib(b, boots)[0])
    in_tokens = _points(family, budgets, lambda b: b.kv_pool_tokens)
    why_not = not_linear(boots)
    if floor is not None and len(in_gib) >= 2:
        return _budget_in_gib(value, in_gib, floor, margin, why_not, family, boots)
    if len(in_tokens) >= 2 and context:
        return _budget_inspell(value, in_tokens, context, margin, why_not, in_gib)
    return unknown("fewer than two of the budgets have a pool (tokens), and no refusal says what one request needs")


def _confounders(family: Sequence[KnownBoot]) -> str | None:
    effects, mixed = find_effects(family)
    if any(e.setting == "budget" for e in effects):
        return None
    return f"the boots with different budgets differ in other settings too: {mixed[0]}" if mixed else None


def _points(
    family: Sequence[KnownBoot], budgets: Sequence[float], measure: Callable[[KnownBoot], float | None]
) -> list[tuple[float, float]]:
    points = []
    for budget in budgets:
        values = [v for b in family if setting_of(b, "budget") == budget and (v := measure(b)) is not None]
        if values:
            points.append((budget, mean(values)))
    return points


def _budget_in_gib(
    value: float,
    points: Sequence[tuple[float, float]],
    floor: float,
    margin: float,
    why_not: str | None,
    family: Sequence[KnownBoot],
    boots: Sequence[KnownBoot],
) -> Prediction:
    left, outside = draw_line(points, value)
    (b0, g0), (b1, g1) = points[0], points[-1]
    cost = (g0 - g1) / (b1 - b0)
    source = next((pool_gib(b, boots)[1] for b in family if setting_of(b, "budget") == b0), "printed")
    reason = (
        f"{g0:.1f} GiB at {spell(b0)} ({source}) and {g1:.1f} GiB at {spell(b1)}: a batch token costs "
        f"{cost * 1024:.2f} MiB, so about {max(0.0, left):.1f} GiB would be left at {spell(value)}, against "
        f"{floor:g} GiB that one request of full context needs ({max(0.0, left) / floor:.2f} of them)"
    )
    if outside:
        reason += "; beyond the budgets that were booted, a straight line is only a guess"
    if why_not:
        reason += f"; no token count follows, for this pool is not linear in memory: {why_not}"
    printed = [b.kv_gib for b in family if b.kv_gib is not None and b.refusal is None]
    if printed and not any(abs(gib - g0) <= 0.05 * g0 for gib in printed):
        reason += f"; the GiB printed at start ({', '.join(f'{gib:g}' for gib in printed)}) do not bear comparison"
    verdict = judge(left, floor, margin)
    left = max(0.0, left)
    if outside and verdict == "fits":
        verdict = "marginal"
    return Prediction("budget", value, verdict, reason, kv_gib=round(left, 3), floor_gib=floor)


def _budget_inspell(
    value: float,
    points: Sequence[tuple[float, float]],
    context: float,
    margin: float,
    why_not: str | None,
    in_gib: Sequence[tuple[float, float]],
) -> Prediction:
    left, outside = draw_line(points, value)
    (b0, t0), (b1, t1) = points[0], points[-1]
    reason = (
        f"{spell(t0)} tokens at {spell(b0)} and {spell(t1)} at {spell(b1)}; one request of full context needs "
        f"{spell(context)}"
    )
    gib = draw_line(in_gib, value)[0] if len(in_gib) >= 2 else None
    if why_not is None and not outside:
        return Prediction(
            "budget",
            value,
            judge(left, context, margin),
            f"{reason}; on the line between them about {spell(left)} would be left",
            kv_gib=None if gib is None else round(gib, 3),
            kv_pool_tokens=round(left),
        )
    worst = min(t0, t1)
    if not outside and worst >= context * (1 + margin):
        return Prediction("budget", value, "fits", f"{reason}; the pool lies between the two, and both hold a request")
    what = f"the pool is not linear in memory ({why_not})" if why_not else "the value is beyond the budgets booted"
    return Prediction("budget", value, "unknown", f"{reason}; {what}, so no straight line is drawn")
