"""A push to a Prometheus Pushgateway: one group, replaced as a whole."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import quote

from auditor.http import Client, Transport, TransportError, clean_url
from auditor.model import OutputError, UsageError

JOB = "premise_auditor"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def push(url: str, text: str, *, transport: Transport, grouping: Mapping[str, str] | None = None) -> None:
    """Replace the group ``job="premise_auditor"`` (and ``grouping``) by this exposition text.

    Args:
        url: the gateway's address; ``/metrics/job/...`` is added.
        text: an exposition without timestamps; a gateway refuses those.

    Raises:
        OutputError: the gateway did not take it.
    """
    path = group_path({"job": JOB, **(grouping or {})})
    address = f"{url.rstrip('/')}/metrics/{path}"
    try:
        with Client(transport) as client:
            client.send("PUT", address, data=text.encode(), content_type=CONTENT_TYPE, ok=(200, 202))
    except TransportError as error:
        said = f": {error.body_start[:200]}" if error.body_start else ""
        raise OutputError(f"Pushgateway: {error}{said}") from None
    except UsageError as error:
        raise OutputError(f"Pushgateway {clean_url(url)}: {error}") from None


def group_path(grouping: Mapping[str, str]) -> str:
    """``job/premise_auditor/team/a%20b``; values with a slash, or empty, as the gateway's ``@base64``."""
    parts = []
    for name, value in grouping.items():
        if "/" in value or not value:
            coded = base64.urlsafe_b64encode(value.encode()).decode().rstrip("=") or "="
            parts.append(f"{name}@base64/{coded}")
        else:
            parts.append(f"{name}/{quote(value, safe='')}")
    return "/".join(parts)
