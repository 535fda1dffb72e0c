"""Why a metrics server did not answer: status and body together, because the servers use statuses differently.

Prometheus says 400 for a query it cannot read, 422 for one it cannot finish, 503 for one that took too long;
VictoriaMetrics says 422 for the first two; Mimir says 422 for its limits and 429 for too many requests.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from auditor.http import TransportError
from auditor.model import EvidenceError

Kind = Literal["limit", "length", "query", "passing", "final"]

_LIMIT = re.compile(
    r"too many (samples|points|chunks|series|unique|bytes)|exceeded maximum resolution|would load too many"
    r"|max(imum)?[ -]?(number of )?(fetched )?(series|chunks|samples|chunk bytes|estimated)"
    r"|max(Unique|Samples|Points|Memory)|cannot select more than|query timed out|time range exceeds"
    r"|(exceed|reach)\w*.{0,80}limit|limit.{0,80}(exceed|reach)"
    r"|query is too (large|expensive)|not enough memory",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"too long query|query (string )?is too long|maxQueryLen|uri too (long|large)", re.IGNORECASE)
_FIELD = re.compile(r'"(errorType|error)"\s*:\s*"((?:[^"\\]|\\.)*)"')


class QueryError(EvidenceError):
    """The server understood the request and refuses this query for good."""


class LengthError(QueryError):
    """The text of the query is longer than the server reads; a shorter range does not shorten it."""


class LimitError(EvidenceError):
    """The server refuses because the query asks for too much at once: a shorter range may pass."""


def classify(error: TransportError) -> Kind:
    """What can be done about an answer: ask for less, nothing (the query), try again, or give up."""
    error_type, said = read_error_body(error.body_start)
    text = f"{said} {error.body_start}"
    if error.kind in ("timeout", "too_large"):
        return "limit"
    if error.kind == "protocol":
        return "passing"
    if error.kind != "status":
        return "final"
    status = error.status or 0
    if status == 414 or (status in (400, 413, 422) and _LENGTH.search(text)):
        return "length"
    if status in (400, 413, 422, 500, 503) and (error_type == "timeout" or _LIMIT.search(text)):
        return "limit"
    if status == 504:
        return "limit"
    if status in (429, 502, 503):
        return "passing"
    if status in (400, 422):
        return "query"
    return "final"


def read_error_body(body: str) -> tuple[str, str]:
    """(errorType, error) of an error answer; the body may be cut short, or plain text."""
    try:
        document = json.loads(body)
    except ValueError:
        found = dict(_FIELD.findall(body))
        return found.get("errorType", ""), found.get("error", body if not body.startswith(("<", "{")) else "")
    if not isinstance(document, dict):
        return "", str(document)
    return str(document.get("errorType", "")), str(document.get("error", ""))


def sentence(error: TransportError) -> str:
    """The transport's own sentence, with what the server said, and the usual cause of a 404 or 401."""
    _, said = read_error_body(error.body_start)
    text = str(error)
    url = error.url.partition("?")[0]
    if error.status == 404:
        return (
            f"{url}: no query API at this path. Prometheus may run under a prefix; Mimir and Cortex want "
            "/prometheus at the end, VictoriaMetrics clusters /select/TENANT/prometheus"
        )
    if error.status in (405, 501):
        return (
            f"{url} answered {error.status}: what runs there does not take queries, so most likely it is no metrics "
            "server; check the host and the port"
        )
    if error.status == 401 and "org" in said.lower():
        return f"{text}; it said {said!r}: give the tenant, for example --header 'X-Scope-OrgID: NAME'"
    return f"{text}; it said {said[:300]!r}" if said else text
