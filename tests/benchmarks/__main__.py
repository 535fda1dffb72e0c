"""``python -m tests.benchmarks [NAME...]``: one table of ratios, each against something measured in the same run.

Names: startup, parsing, fleet, cost, html_report; all of them without a name. Other work on the machine makes single
figures uncertain by a tenth or two; runs that are compared alternate, so that it meets both.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys

from tests.benchmarks.measuring import Row

SECTIONS = ("startup", "parsing", "fleet", "cost", "html_report")
HEADING = ("what", "ours", "against", "ratio", "reach", "")


def main() -> int:
    names = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} at the start\n")
    print("| " + " | ".join(HEADING) + " |")
    print("|" + "---|" * len(HEADING))
    missed = 0
    for name in names:
        for row in importlib.import_module(f"tests.benchmarks.{name}").measure():
            missed += row.reached is False
            print("| " + " | ".join(_cells(row)) + " |", flush=True)
    print(f"\n{missed} not reached" if missed else "\nall reached")
    return 0


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    mark = "skipped" if row.reached is None else "yes" if row.reached else "no"
    return row.what, row.ours, row.against, ratio, row.reach, mark


if __name__ == "__main__":
    sys.exit(main())
