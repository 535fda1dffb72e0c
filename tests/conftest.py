"""What all tests share: an environment without anybody's settings, and the rule for tests that need a real server."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

# A job in the background of a script has interrupts ignored, and its children inherit that: Ctrl-C could not be tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FOREIGN = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC", "NO_COLOR", "COLUMNS")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no colours, no AUDITOR_* of whoever runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in FOREIGN or name.startswith("AUDITOR_"):
            monkeypatch.delenv(name)


def need_program(*names: str) -> str:
    """Path of the first program that is installed; skips without any, and fails where CI=true promised one."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    reason = f"needs {' or '.join(names)}, which is not installed"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
