"""What the benchmarks rest on, as far as it can be told without a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from auditor.measures.reduce import reduce_target
from auditor.measures.targets import build_target
from auditor.measures.vocabulary import load_vocabulary
from auditor.sources.alike import PageReader
from tests.benchmarks import cost, soak
from tests.benchmarks.measuring import FIXTURE, ROOT, make_pages

HEAVY = ("pandas", "numpy", "matplotlib", "requests", "urllib3", "jinja2", "yaml", "prometheus_client", "pydantic")


@pytest.mark.parametrize(("what", "commands", "gets"), cost.CASES, ids=[case[0] for case in cost.CASES])
def test_one_get_for_each_scrape(what: str, commands: Sequence[Sequence[str]], gets: int) -> None:
    with cost.counting_engine() as seen:
        cost.run_audits(seen, *commands)
    assert seen.requests == ["/metrics"] * gets
    assert seen.body_bytes == gets * FIXTURE.stat().st_size


def test_a_terminal_audit_of_a_page_loads_no_heavy_library() -> None:
    program = (
        "import sys, json\n"
        "from auditor.entry import run\n"
        f"code = run(['audit', {str(FIXTURE)!r}])\n"
        "tops = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(json.dumps([code, tops, 'auditor.engine_logs' in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    code, loaded, logs = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert "rich" in loaded  # the list is of a run that drew its report
    assert not set(HEAVY) & set(loaded)
    assert not logs


def test_engines_of_a_kind_share_everything_but_their_numbers() -> None:
    vocabulary = load_vocabulary()
    reader = PageReader(vocabulary.wanted)
    first, later = make_pages()
    targets = [
        build_target(f"h{i}", [(0.0, reader.read(first)), (60.0, reader.read(later))], vocabulary, saved=False)
        for i in range(3)
    ]
    assert [t.state for t in targets] == ["measured"] * 3
    assert len({id(t.table.shared) for t in targets}) == 1
    parts = [reduce_target(t, vocabulary.engine("vllm")) for t in targets]
    assert parts[0]
    assert [[p.quantities for p in one] for one in parts] == [[p.quantities for p in parts[0]]] * 3


def test_repeated_audits_hold_no_more_than_the_first() -> None:
    program = (
        "import contextlib, json, os\n"
        "from auditor.entry import run\n"
        "from tests.benchmarks.soak import count\n"
        "held = []\n"
        "for n in range(8):\n"
        "    with open(os.devnull, 'w') as nowhere, contextlib.redirect_stdout(nowhere):\n"
        f"        assert run(['audit', {str(FIXTURE)!r}]) == 0\n"
        "    held.append(count())\n"
        "print(json.dumps(held))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    held = json.loads(done.stdout.splitlines()[-1])
    for what in ("files", "threads", "objects"):
        assert held[-1][what] <= held[2][what], what


def test_the_simulated_engine_of_the_soak_serves_pages_that_move() -> None:
    from tests.simulator import even_times, page_text, random_setting, simulate, snapshots

    scenario = random_setting(soak.SEED)
    run = simulate(scenario.setting, scenario.workload)
    taken = snapshots(run, even_times(run, soak.PAGES), layout=scenario.layout)
    texts = {page_text(taken[i]) for i in (100, 102, 104)}
    assert len(texts) == 3
