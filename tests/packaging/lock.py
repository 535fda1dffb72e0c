"""``python -m tests.packaging.lock`` writes requirements.lock: each runtime dependency at its installed version."""

from __future__ import annotations

import sys

from tests.packaging.building import ROOT, project, runtime_closure

HEAD = """\
# The runtime dependencies, and theirs, at the versions that the tests ran with on Python 3.11.
# Use: pip install --constraint requirements.lock .       Made by: python -m tests.packaging.lock
"""


def lock_text() -> str:
    closure = runtime_closure(project()["dependencies"])
    return HEAD + "".join(f"{name}=={closure[name].version}\n" for name in sorted(closure))


def main() -> int:
    (ROOT / "requirements.lock").write_text(lock_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
