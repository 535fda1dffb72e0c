"""Live pages: one GET per target and scrape, all targets at once within a bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from auditor.http import Client, clean_url
from auditor.model import EvidenceError, Page
from auditor.sources.alike import PageReader

CONCURRENCY = 16
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4"
MOST_WAITING_BYTES = 128 * 2**20
"""Bodies that wait for being parsed hold at most this much together."""
_HOST_PORT = re.compile(r"^[A-Za-z0-9._-]+:\d{1,5}(/.*)?$|^\[[0-9a-fA-F:]+\]:\d{1,5}(/.*)?$")


@dataclass(frozen=True)
class Scraped:
    """What one GET gave: a page, or the sentence why there is none."""

    address: str
    at: float | None
    page: Page | None
    failure: str | None = None


@dataclass(frozen=True)
class _Unread:
    """A body that is not parsed yet."""

    address: str
    at: float
    body: bytes
    content_type: str


def looks_like_address(target: str) -> bool:
    return target.startswith(("http://", "https://")) or bool(_HOST_PORT.match(target))


def metrics_url(target: str) -> str:
    """The URL to get: ``http://`` and ``/metrics`` are added where they are missing."""
    url = target if "://" in target else f"http://{target}"
    parts = urlsplit(url)
    if parts.path in ("", "/"):
        parts = parts._replace(path="/metrics")
    return urlunsplit(parts)


def scrape_all(
    client: Client, urls: Sequence[str], wanted: Callable[[str], bool], *, concurrency: int = CONCURRENCY
) -> list[Scraped]:
    """Scrape every URL once, in order of the URLs. A failure is a result, not an exception."""
    return Scrape(PageReader(wanted), urls).fetch(client, concurrency=concurrency).parse()


class Scrape:
    """One GET of every URL: first all bodies, then all pages, so that parsing can use the wait for the next scrape."""

    def __init__(self, reader: PageReader, urls: Sequence[str]) -> None:
        self._reader = reader
        self._urls = urls
        self._got: list[Scraped | _Unread] = []

    def fetch(self, client: Client, *, concurrency: int = CONCURRENCY) -> Scrape:
        """Get the bodies, all targets at once within the bound."""
        if len(self._urls) == 1:
            self._got = [self._get(client, self._urls[0])]
            return self
        with ThreadPoolExecutor(max_workers=min(concurrency, max(1, len(self._urls)))) as pool:
            self._got = list(pool.map(lambda url: self._get(client, url), self._urls))
        return self

    def parse(self) -> list[Scraped]:
        """The pages in order of the URLs; each body is dropped as soon as it is read."""
        for i, got in enumerate(self._got):
            if isinstance(got, _Unread):
                self._got[i] = self._read(got)
        return [got for got in self._got if isinstance(got, Scraped)]

    def _get(self, client: Client, url: str) -> Scraped | _Unread:
        address = clean_url(url)
        try:
            response = client.get(url, accept=ACCEPT)
        except EvidenceError as error:
            return Scraped(address, None, None, str(error))
        unread = _Unread(address, response.asked_at, response.body, response.content_type)
        # Large bodies are not piled up: a page takes less memory than its text.
        return unread if len(unread.body) <= MOST_WAITING_BYTES / len(self._urls) else self._read(unread)

    def _read(self, unread: _Unread) -> Scraped:
        try:
            page = self._reader.read(unread.body, content_type=unread.content_type)
        except EvidenceError as error:
            return Scraped(unread.address, unread.at, None, str(error))
        return Scraped(unread.address, unread.at, page)
