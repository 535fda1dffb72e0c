"""``python -m tests.docs --write`` runs every command that the pages show and writes what it prints into them."""

from __future__ import annotations

import argparse
import sys

from tests.docs.consoles import ROOT, with_blocks
from tests.docs.consoles import rewritten as now


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite the pages; without it they are only compared")
    write = parser.parse_args().write
    stale = 0
    for page in with_blocks():
        text = now(page)
        if text == page.read_text(encoding="utf-8"):
            continue
        stale += 1
        if write:
            page.write_text(text, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {'written' if write else 'out of date; run: python -m tests.docs --write'}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
