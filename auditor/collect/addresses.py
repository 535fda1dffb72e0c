"""Names that stand for several servers."""

from __future__ import annotations

from auditor.model import EvidenceError


def expand_addresses(urls: list[str], *, expand: bool) -> list[str]:
    """Replace names that resolve to several addresses by these addresses, where asked to.

    A name that does not resolve is kept: asking it says why, and only that target fails.
    """
    urls = list(dict.fromkeys(urls))
    if not expand:
        return urls
    from urllib.parse import urlsplit, urlunsplit

    from auditor.http import resolve_addresses

    out: list[str] = []
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            addresses = resolve_addresses(parts.hostname or "", port)
        except EvidenceError:
            out.append(url)
            continue
        for address in addresses:
            host = f"[{address}]" if ":" in address else address
            user = parts.netloc.rpartition("@")[0]
            out.append(urlunsplit(parts._replace(netloc=f"{user}@{host}:{port}" if user else f"{host}:{port}")))
    return out
