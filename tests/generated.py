"""Files that are made from the program's own declarations, committed, and checked for drift.

``python -m tests.generated`` writes them, ``python -m tests.generated --check`` fails where one differs. To add one,
write a function that returns its text (or several paths with their texts) and list it in ``GENERATED``.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Files = Mapping[str, str]
"""Path from the root of the repository -> the whole text of the file."""


def premises_schema_file() -> Files:
    """The JSON Schema of a premises file, for editors."""
    from auditor.gate.schema import premises_schema
    from auditor.gating import known_names

    return {"docs/premises.schema.json": json.dumps(premises_schema(known_names()), indent=2) + "\n"}


def engines_page_file() -> Files:
    """What each engine and release gives, from which series, and the holes."""
    from tests.engines.engines_page import engines_page

    return engines_page()


def monitoring_files() -> Files:
    """Recording and alert rules, and a dashboard, for each engine."""
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.monitoring.dashboard import render_dashboard
    from auditor.monitoring.rules import render_rules

    out = {}
    for engine in load_vocabulary().engines:
        out[f"queries/rules/{engine.name}.yaml"] = render_rules(engine)
        out[f"queries/dashboards/{engine.name}.json"] = render_dashboard(engine)
    return out


def reference_page_files() -> Files:
    """Audits, levers, readings and flags, from their docstrings."""
    from tests.reference_pages import reference_pages

    return reference_pages()


def picture_files() -> Files:
    """The picture of a report in the README."""
    from tests.docs import picture

    return picture.picture_files()


GENERATED: tuple[Callable[[], Files], ...] = (
    engines_page_file,
    monitoring_files,
    picture_files,
    premises_schema_file,
    reference_page_files,
)


def differences() -> Iterator[tuple[Path, str, str]]:
    """Every file whose text is not what it should be: path, as it is, as it should be."""
    for make in GENERATED:
        for name, wanted in make().items():
            path = ROOT / name
            found = path.read_text(encoding="utf-8") if path.is_file() else ""
            if found != wanted:
                yield path, found, wanted


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is out of date")
    check = parser.parse_args().check
    stale = list(differences())
    for path, found, wanted in stale:
        name = path.relative_to(ROOT)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
            print(f"{name}: written")
            continue
        print(f"{name}: out of date; run: python -m tests.generated", file=sys.stderr)
        lines = difflib.unified_diff(
            found.splitlines(), wanted.splitlines(), "committed", "generated", lineterm="", n=1
        )
        print("\n".join(list(lines)[:40]), file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
