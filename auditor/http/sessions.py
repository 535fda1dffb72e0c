"""A requests session whose sockets a deadline can cut, and that takes no credentials from elsewhere."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.request import getproxies

import requests
import requests.adapters
import urllib3
import urllib3.connection
import urllib3.connectionpool

from auditor.http.deadline import current_attempt


def open_session(*, insecure: bool) -> requests.Session:
    """A session for one thread at a time. ``insecure`` silences urllib3: the caller says it aloud."""
    session = requests.Session()
    # One thread has one connection to a host; a fleet has many hosts.
    session.mount("http://", _Adapter(pool_maxsize=1))
    session.mount("https://", _Adapter(pool_maxsize=1))
    # requests reads the whole environment at each request; once is enough, and mostly nothing is set.
    session.trust_env = bool(getproxies())
    session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
    if insecure:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return session


class _WatchedMixin:
    """A connection whose socket the attempt under way can cut."""

    sock: Any

    def _new_conn(self) -> socket.socket:
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        _watch(sock)
        return sock

    def putrequest(self, *args: Any, **options: Any) -> None:
        if self.sock is not None:
            _watch(self.sock)
        super().putrequest(*args, **options)  # type: ignore[misc]


def _watch(sock: Any) -> None:
    attempt = current_attempt()
    if attempt is not None:
        attempt.watch(sock.fileno())


class _HTTPConnection(_WatchedMixin, urllib3.connection.HTTPConnection):
    pass


class _HTTPSConnection(_WatchedMixin, urllib3.connection.HTTPSConnection):
    pass


class _HTTPPool(urllib3.connectionpool.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.connectionpool.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


_POOLS = {"http": _HTTPPool, "https": _HTTPSPool}


class _Adapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager
