"""Argument dumps as engines print them."""

from __future__ import annotations

import pytest

from auditor.engine_logs.arguments import pick_number, read_arguments


@pytest.mark.parametrize(
    "dump",
    [
        "{'model': 'a, b', 'max_num_seqs': 32, 'x': None, 'flag': True, 'share': 0.9}",
        "Namespace(model='a, b', max_num_seqs=32, x=None, flag=True, share=0.9)",
        "ServerArgs(model='a, b', max_num_seqs=32, x=None, flag=True, share=0.9)",
        "model='a, b', max_num_seqs=32, x=None, flag=True, share=0.9",
    ],
)
def test_one_content_in_four_notations(dump: str) -> None:
    assert read_arguments(dump) == {"model": "a, b", "max_num_seqs": 32, "x": None, "flag": True, "share": 0.9}


def test_nested_values_never_override_the_outer_ones() -> None:
    dump = "{'spec': {'max_model_len': 4096, 'num_speculative_tokens': 3}, 'max_model_len': 32768}"
    found = read_arguments(dump)
    assert (found["max_model_len"], found["num_speculative_tokens"]) == (32768, 3)


def test_objects_and_enums_do_not_break_the_rest() -> None:
    found = read_arguments("a=<Mode.NONE: 0>, b=[1, 2], c=torch.bfloat16, d=X(e=5, f='}'), g=7")
    assert (found["g"], found["e"], found["c"]) == (7, 5, "torch.bfloat16")


def test_cut_dump_gives_what_stands_before_the_cut() -> None:
    assert read_arguments("{'a': 1, 'b': 'unfin")["a"] == 1
    assert read_arguments("{'a': 1, 'b'") == {"a": 1}


@pytest.mark.parametrize("name", ["api_key", "hf_token", "ssl_keyfile_password", "admin_api_key", "auth"])
def test_secrets_are_left_out(name: str) -> None:
    assert read_arguments(f"{{'{name}': 'sk-1', 'max_num_batched_tokens': 8}}") == {"max_num_batched_tokens": 8}


def test_pick_number_takes_no_truth_for_a_number() -> None:
    assert pick_number({"a": True, "b": None, "c": "12"}, "a", "b", "c") == 12
    assert pick_number({"a": "auto"}, "a", "missing") is None
