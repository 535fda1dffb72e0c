"""Live pages: one GET per target and scrape, all targets at once within a bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from auditor.http import Client, clean_url
from auditor.model import EvidenceError, Page
from auditor.sources.exposition import parse_page

CONCURRENCY = 16
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4"
_HOST_PORT = re.compile(r"^[A-Za-z0-9._-]+:\d{1,5}(/.*)?$|^\[[0-9a-fA-F:]+\]:\d{1,5}(/.*)?$")


@dataclass(frozen=True)
class Scraped:
    """What one GET gave: a page, or the sentence why there is none."""

    address: str
    at: float | None
    page: Page | None
    failure: str | None = None


def looks_like_address(target: str) -> bool:
    return target.startswith(("http://", "https://")) or bool(_HOST_PORT.match(target))


def metrics_url(target: str) -> str:
    """The URL to get: ``http://`` and ``/metrics`` are added where they are missing."""
    url = target if "://" in target else f"http://{target}"
    parts = urlsplit(url)
    if parts.path in ("", "/"):
        parts = parts._replace(path="/metrics")
    return urlunsplit(parts)


def scrape(client: Client, url: str, wanted: Callable[[str], bool]) -> Scraped:
    """Get and parse one page; a failure is a result, not an exception."""
    address = clean_url(url)
    try:
        response = client.get(url, accept=ACCEPT)
    except EvidenceError as error:
        return Scraped(address, None, None, str(error))
    try:
        page = parse_page(response.body, content_type=response.content_type, wanted=wanted)
    except EvidenceError as error:
        return Scraped(address, response.asked_at, None, str(error))
    return Scraped(address, response.asked_at, page)


def scrape_all(
    client: Client,
    urls: Sequence[str],
    wanted: Callable[[str], bool],
    *,
    concurrency: int = CONCURRENCY,
) -> list[Scraped]:
    """Scrape every URL once, in order of the URLs."""
    if len(urls) == 1:
        return [scrape(client, urls[0], wanted)]
    with ThreadPoolExecutor(max_workers=min(concurrency, max(1, len(urls)))) as pool:
        return list(pool.map(lambda url: scrape(client, url, wanted), urls))
