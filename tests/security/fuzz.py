"""``python -m tests.security.fuzz``: broken and hostile inputs for every reader of what others wrote.

    python -m tests.security.fuzz                          1,000,000 inputs in all
    python -m tests.security.fuzz --only page --inputs 5000 --seed 7
    python -m tests.security.fuzz --keep DIR               what found something is written there

An input is a good one from ``fixtures/``, cut, doubled, spliced with another, with bytes flipped and words of its
language put in; JSON is mostly changed so that it stays JSON. A reader may accept it or refuse it with a sentence.
Anything else is a finding: another exception, more than ``SLOWEST_SECONDS``, or, for the kinds that run a whole
command, an exit code of 4.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from auditor.gate.model import Names
from auditor.model import AuditorError
from tests.security.seeds import SEEDS, TREES, VALUES, WORDS

SLOWEST_SECONDS = 10.0
"""Of processor time: how busy the machine is otherwise says nothing. A page with four pictures takes two."""
SHARES = {
    "page": 0.5, "premises": 0.025, "log": 0.03, "window": 0.24, "report": 0.2, "page-command": 0.002,
    "window-command": 0.002, "report-command": 0.001,
}  # fmt: skip
"""Of all inputs, how many go to each kind: whole commands are a thousand times slower than a reader."""
FORMATS = ("terminal", "markdown", "html", "junit", "github", "prometheus", "json")
Reader = Callable[[bytes, Path], None]


class TooSlow(BaseException):
    """An input took longer than any may."""


class Finding(Exception):
    """An input that was neither accepted nor refused with a sentence."""


@dataclass(frozen=True)
class Found:
    kind: str
    number: int
    data: bytes
    trace: str


def mutate(kind: str, dice: random.Random) -> bytes:
    """One input of a kind: the same one for the same state of the dice."""
    seeds, words = SEEDS[kind](), WORDS[kind]
    if kind in TREES and dice.random() < 0.8:
        return _mutate_tree(dice.choice(TREES[kind]()), dice)
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        at = dice.randrange(len(data) + 1)
        what = dice.randrange(8)
        if what == 0 and data:
            data[min(at, len(data) - 1)] = dice.randrange(256)
        elif what == 1:
            data[at:at] = dice.choice(words)
        elif what == 2:
            del data[at : at + dice.choice((1, 2, 8, 64, 512))]
        elif what == 3:
            data[at:at] = data[at : at + dice.choice((1, 8, 64, 512))] * dice.choice((1, 2, 16))
        elif what == 4:
            other = dice.choice(seeds)
            start = dice.randrange(len(other) + 1)
            data[at : at + dice.choice((0, 16, 256))] = other[start : start + dice.choice((16, 256, 2048))]
        elif what == 5:
            _swap_number(data, dice, words)
        elif what == 6:
            data[at : at + dice.choice((1, 4, 16))] = dice.choice(words)
        else:
            data = data[:at] if dice.random() < 0.3 else data
    return bytes(data)


def _mutate_tree(text: str, dice: random.Random) -> bytes:
    """JSON that stays JSON: some nodes replaced, dropped, or moved."""
    document = json.loads(text)
    for _ in range(dice.choice((1, 1, 2, 3))):
        node = document
        while isinstance(node, dict | list) and node:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = dice.choice(keys)
            child = node[key]
            if not isinstance(child, dict | list) or not child or dice.random() < 0.15:
                if dice.random() < 0.2:
                    del node[key]
                else:
                    node[key] = child if dice.random() < 0.05 else copy.deepcopy(dice.choice(VALUES))
                break
            node = child
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _swap_number(data: bytearray, dice: random.Random, words: tuple[bytes, ...]) -> None:
    """Put another word where a number stands."""
    places = [m.span() for m in re.finditer(rb"-?\d[\d.e+]*", bytes(data[:20_000]))]
    if places:
        start, end = dice.choice(places)
        data[start:end] = dice.choice(words)


# --------------------------------------------------------------------------- readers


def read_page(data: bytes, path: Path) -> None:
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.sources.bodies import read_body
    from auditor.sources.exposition import parse_page

    parse_page(read_body(data), wanted=load_vocabulary().wanted)


def read_premises(data: bytes, path: Path) -> None:
    from auditor.gate.reader import read_premises

    path.write_bytes(data)
    read_premises(str(path), _names())


@cache
def _names() -> Names:
    from auditor.gating import known_names

    return known_names()


def read_log(data: bytes, path: Path) -> None:
    from auditor.engine_logs import scan_log

    scan = scan_log("-", stream=io.BytesIO(data))
    assert scan.settings is not None


def read_window(data: bytes, path: Path) -> None:
    from auditor.saved import window_from_json
    from auditor.sources.bodies import read_body
    from auditor.sources.files import as_saved_document

    document = as_saved_document(read_body(data))
    if document is not None:
        window_from_json(document, name="window.json")


def read_report(data: bytes, path: Path) -> None:
    from auditor.sources.bodies import read_body
    from auditor.sources.files import as_saved_document

    as_saved_document(read_body(data))


def command(*argv: str) -> Reader:
    """A whole command on the input as a file. Its exit code 4 is a finding: so would a traceback be."""

    def run(data: bytes, path: Path) -> None:
        from auditor.entry import run as program

        path.write_bytes(data)
        out, said = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = program([part.format(path, FORMATS[len(data) % len(FORMATS)]) for part in argv])
        if code not in (0, 2, 3) or "Traceback" in said.getvalue():
            raise Finding(f"exit code {code}: {said.getvalue()[-500:]}")

    return run


READERS: dict[str, Reader] = {
    "page": read_page,
    "premises": read_premises,
    "log": read_log,
    "window": read_window,
    "report": read_report,
    "page-command": command("audit", "{0}"),
    "window-command": command("audit", "{0}"),
    "report-command": command("render", "{0}", "--as", "{1}"),
}


# --------------------------------------------------------------------------- running


def fuzz(kind: str, inputs: int, seed: int, *, from_: int = 0) -> Iterator[Found]:
    """Run inputs of a kind; every finding with the input that made it."""
    read = READERS[kind]
    signal.signal(signal.SIGPROF, _too_slow)
    with tempfile.TemporaryDirectory(prefix="auditor-fuzz-") as folder:
        path = Path(folder) / "input"
        for number in range(from_, from_ + inputs):
            data = mutate(kind, random.Random(f"{seed}/{kind}/{number}"))
            signal.setitimer(signal.ITIMER_PROF, SLOWEST_SECONDS)
            try:
                read(data, path)
            except AuditorError as error:
                if not str(error).strip() or "\x1b" in str(error):
                    yield Found(kind, number, data, f"a refusal that says nothing or too much: {error!r}")
            except (Exception, TooSlow):  # noqa: BLE001  (whatever it is, it is what is looked for)
                yield Found(kind, number, data, traceback.format_exc(limit=-6))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {SLOWEST_SECONDS:g} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, or of the one kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="from_", type=int, default=0, metavar="N", help="first input of each kind")
    parser.add_argument("--only", choices=list(READERS))
    parser.add_argument("--keep", type=Path, help="write inputs that found something here")
    options = parser.parse_args()
    wanted = {options.only: options.inputs} if options.only else {k: int(options.inputs * s) for k, s in SHARES.items()}
    findings = 0
    for kind, inputs in wanted.items():
        begun, seen = time.monotonic(), set()
        for found in fuzz(kind, inputs, options.seed, from_=options.from_):
            findings += 1
            last = found.trace.strip().splitlines()[-1]
            if last in seen:
                continue
            seen.add(last)
            print(f"{kind} {found.number}: {found.trace}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{kind}-{found.number}").write_bytes(found.data)
        took = time.monotonic() - begun
        print(f"{kind}: {inputs:,} inputs, {len(seen)} kinds of findings, {took:.0f} s", flush=True)
    print(f"{sum(wanted.values()):,} inputs, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
