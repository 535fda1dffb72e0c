"""The roofline: peaks from an option or the table, shares by hand, and where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.audits import roofline
from auditor.measures.accelerators import ACCELERATORS, find_accelerator
from auditor.measures.subject import Subject
from auditor.model import Options, Reading, Readings, Setting
from tests.ceilings.test_ceilings import subject


def page(name: str, **settings: float | str) -> Subject:
    s = subject(name, {"budget": 2048.0})
    s.settings = {**s.settings, **{k: Setting(v, "flag") for k, v in settings.items()}}
    return s


def judged(memory: Reading, **more: Reading) -> Any:
    values = {"memory_bandwidth_share": memory, **more}
    return roofline.audit(Readings({"engine": "vllm"}, "scrapes", values, (), {}), Options())


def share(low: float | None, high: float | None, count: float = 100.0) -> Reading:
    return Reading("memory_bandwidth_share", "bounded", "ratio", low=low, high=high, count=count)


def test_the_table_has_the_machine_of_the_published_cases() -> None:
    found = find_accelerator("gb10")
    assert found is not None
    assert found.gbytes_per_second == 273
    assert all(a.source and a.gbytes_per_second > 0 for a in ACCELERATORS)
    assert find_accelerator("abacus") is None


def test_without_a_peak_there_is_no_roofline() -> None:
    found = page("n-mfu").read("memory_bandwidth_share")
    assert found.state == "not_exported"
    assert "--peak-gbytes-per-second" in (found.reason or "")
    assert judged(found).verdict == "not_applicable"


def test_an_unknown_accelerator_names_the_known_ones() -> None:
    found = page("n-mfu", accelerator="abacus").read("memory_bandwidth_share")
    assert "GB10" in (found.reason or "")


def test_a_missing_arithmetic_figure_is_said() -> None:
    found = page("n-mfu", accelerator="GB10").read("arithmetic_share")
    assert "give --peak-tflops" in (found.reason or "")


def test_the_engines_estimate_is_a_low_end_over_the_wall() -> None:
    s = page("n-mfu", peak_gbytes_per_second=20.0)
    achieved = s.increase("estimated_read_bytes") / (s.window.seconds or 0.0) / 1e9
    found = s.read("memory_bandwidth_share")
    assert found.low == pytest.approx(achieved / 20)
    assert found.high is not None
    assert found.low < found.high <= 1


def test_weights_over_a_step_without_prefill() -> None:
    # 1e9 parameters in bf16 are 2 GB; the longest step that the 99 % range allows is service / (low x outputs).
    s = page("d-prefix-off", peak_gbytes_per_second=273.0, parameters=1e9)
    low = s.read("decode_stretch_share").extra["ceiling_99"][0]
    longest = 102.4 / (low * 640)
    found = s.read("memory_bandwidth_share")
    assert found.low == pytest.approx(2.0 / longest / 273.0, rel=0.002)
    assert found.high is None
    assert "KV cache" in (found.reason or "")
    s = page("d-prefix-off", peak_gbytes_per_second=273.0, parameters=1e9, precision="fp8")
    assert s.read("memory_bandwidth_share").low == pytest.approx((found.low or 0.0) / 2)


def test_prefill_arithmetic_by_parameters_is_a_low_end() -> None:
    # 2 x 1e9 x 165,446 tokens over 31.0 s of wall (prefill request-seconds are 37.4): 10.67 TFLOP/s.
    s = page("d-prefix-off", peak_tflops=100.0, parameters=1e9)
    found = s.read("arithmetic_share")
    assert found.low == pytest.approx(2e9 * 165_446 / 31.0086 / 1e14, rel=0.001)
    assert found.high is None


@pytest.mark.parametrize(
    ("low", "high", "count", "word"),
    [
        (0.6, 0.9, 100, "holds"),
        (0.1, 0.3, 100, "broken"),
        (0.3, 0.7, 100, "undecided"),
        (0.6, None, 100, "holds"),
        (0.1, None, 100, "undecided"),
        (0.6, 0.9, 10, "undecided"),
        (1.7, None, 100, "undecided"),
    ],
)
def test_half_of_the_peak_is_the_line(low: float, high: float | None, count: float, word: str) -> None:
    assert judged(share(low, high, count)).verdict == word


def test_more_than_the_peak_is_a_model_that_no_step_reads() -> None:
    assert "mixture of experts" in judged(share(1.7, None)).summary
