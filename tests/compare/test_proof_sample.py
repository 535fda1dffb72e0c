"""A small sample of tests.compare.prove, whose table stands in docs/compare.md."""

from __future__ import annotations

from tests.compare.prove import prove


def test_like_servers_seldom_show_a_winner_and_a_real_change_is_found() -> None:
    single, repeated, found = prove(12)
    assert single.share <= 0.05
    assert repeated.share <= 0.08, "4 % over many settings; this sample has about 170 rows"
    assert repeated.overall["better"] + repeated.overall["worse"] <= 1
    hits = [hit for readings in found.values() for hit in readings]
    assert len(hits) >= 8
    assert sum(hits) / len(hits) >= 0.75
