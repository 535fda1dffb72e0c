"""``python -m tests.packaging.fresh``: the wheel and the sdist as a stranger gets them, from an empty folder.

By hand, for it installs from a package registry: each into a fresh virtual environment by pip, the wheel by pipx run
and by uvx. Every way must print the same demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.packaging.building import build

DEMO = ("auditor", "demo")


def _output(*argv: str, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AUDITOR_", "PYTHON"))} | {"COLUMNS": "80"}
    env |= {"PIPX_HOME": str(cwd.parent / "pipx"), "UV_CACHE_DIR": str(cwd.parent / "uv")}
    return subprocess.run(argv, cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="auditor-fresh-") as name:
        folder = Path(name)
        for part in ("wheel", "sdist", "empty"):
            (folder / part).mkdir()
        built = {target: build(target, folder / target) for target in ("wheel", "sdist")}
        empty, shown = folder / "empty", {}
        for target, file in built.items():
            venv.create(folder / f"v-{target}", with_pip=True)
            bin_ = folder / f"v-{target}" / "bin"
            _output(str(bin_ / "pip"), "install", "--quiet", str(file), cwd=empty)
            shown[f"pip, {target}"] = _output(str(bin_ / "auditor"), "demo", cwd=empty)
            print(_output(str(bin_ / "python"), "-m", "auditor", "--version", cwd=empty).strip())
        venv.create(folder / "tools", with_pip=True)
        tools = folder / "tools" / "bin"
        _output(str(tools / "pip"), "install", "--quiet", "pipx", "uv", cwd=empty)
        shown["pipx run"] = _output(str(tools / "pipx"), "run", "--spec", str(built["wheel"]), *DEMO, cwd=empty)
        shown["uvx"] = _output(str(tools / "uvx"), "--from", str(built["wheel"]), *DEMO, cwd=empty)
        left = list(empty.iterdir())
    for way, text in shown.items():
        print(f"{way}: {'the same demo' if text == shown['pip, wheel'] else 'ANOTHER DEMO'}")
    if left:
        print(f"left behind: {left}")
    return 0 if len(set(shown.values())) == 1 and not left else 1


if __name__ == "__main__":
    sys.exit(main())
