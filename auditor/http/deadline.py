"""Work that ends at its deadline, whatever it is stuck in."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from auditor.http.errors import Phase, TransportError

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The work was not done in time and has been cut."""


class Attempt:
    """One request under way: its deadline, how far it came, and the sockets to cut when time is up."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.phase: Phase = "connect"
        self.body_bytes = 0
        self.is_cut = False
        self.failure: TransportError | None = None
        """What is known to be wrong already, while the rest of the answer is still awaited."""
        self._lock = threading.Lock()
        self._taps: list[socket.socket] = []

    def remaining_seconds(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def watch(self, descriptor: int) -> None:
        """Keep a second handle on a socket: shutting it down wakes whoever reads, TLS handshakes included."""
        with self._lock:
            self._taps.append(socket.socket(fileno=os.dup(descriptor)))
            if self.is_cut:
                self._shut_all()
        self.phase = "answer"

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            self._shut_all()

    def finish(self) -> None:
        with self._lock:
            for tap in self._taps:
                tap.close()
            self._taps.clear()

    def _shut_all(self) -> None:
        for tap in self._taps:
            try:
                tap.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


_current = threading.local()


def current_attempt() -> Attempt | None:
    """The attempt that this thread works for."""
    attempt: Attempt | None = getattr(_current, "attempt", None)
    return attempt


def run_within(attempt: Attempt, work: Callable[[], T]) -> T:
    """The result of ``work``, or :class:`DeadlinePassed` at the deadline whatever ``work`` is stuck in.

    It runs in a thread of its own, because a socket's time-out restarts with every byte and a look-up of
    a name has none. At the deadline, and at Ctrl-C, its sockets are shut down, which ends that thread.
    """
    future: Future[T] = Future()

    def run() -> None:
        _current.attempt = attempt
        try:
            future.set_result(work())
        except Exception as problem:  # noqa: BLE001 - handed over and raised in the caller's thread
            future.set_exception(problem)
        finally:
            attempt.finish()

    threading.Thread(target=run, name="auditor-http", daemon=True).start()
    try:
        wait([future], timeout=attempt.remaining_seconds())
    finally:
        if not future.done():
            attempt.cut()
    if attempt.is_cut:
        raise DeadlinePassed
    return future.result()
