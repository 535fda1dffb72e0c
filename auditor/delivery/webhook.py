"""A webhook with a JSON body. Its address is often its password, so no message ever shows the path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.http import Client, Transport, TransportError
from auditor.model import OutputError, UsageError, dump_json

OK = (200, 201, 202, 203, 204)


def post(url: str, body: Mapping[str, Any], *, transport: Transport) -> None:
    """Send the body.

    Raises:
        OutputError: the other side did not take it.
    """
    try:
        with Client(transport) as client:
            client.send(
                "POST", url, data=dump_json(body).encode(), content_type="application/json", ok=OK, private_path=True
            )
    except TransportError as error:
        raise OutputError(f"webhook: {error}") from None
    except UsageError as error:
        raise OutputError(f"webhook: {error}") from None


def summarise(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a chat or a ticket needs of a report: the verdicts, what changed, and a sentence in ``text``.

    ``text`` is the member that chat services show; the whole report is under ``report``.
    """
    nights = document.get("nights") or {}
    by_labels = {repr(sorted(s["labels"].items(), key=str)): s for s in nights.get("subjects", ())}
    subjects = []
    for subject in document["subjects"]:
        key = repr(sorted(subject["labels"].items(), key=str))
        night = by_labels.get(key, {})
        subjects.append(
            {
                "labels": subject["labels"],
                "audits": {name: v["verdict"] for name, v in subject["audits"].items()},
                "broken": {name: v["summary"] for name, v in subject["audits"].items() if v["verdict"] == "broken"},
                "against_history": night.get("verdict"),
                "changes": [_change(c, night) for c in night.get("changes", ())[:10]],
                "mind": list(
                    dict.fromkeys(c for comparison in night.get("comparisons", ()) for c in comparison["confounders"])
                ),
            }
        )
    return {
        "text": headline(document),
        "schema": document["schema"],
        "kind": "nightly",
        "window": document["window"],
        "exit_code": document["exit_code"],
        "subjects": subjects,
        "report": document,
    }


def _change(change: Mapping[str, Any], night: Mapping[str, Any]) -> dict[str, Any]:
    """What moved, and by what part of itself against the quiet nights, with its 95 % interval."""
    rows = [row for comparison in night.get("comparisons", ()) for row in comparison["rows"]]
    row: Mapping[str, Any] = next((r for r in rows if r["reading"] == change["reading"]), {})
    kept = {k: change[k] for k in ("reading", "verdict", "value", "baseline", "band", "since")}
    return {**kept, "change": row.get("change"), "change_low": row.get("low"), "change_high": row.get("high")}


def headline(document: Mapping[str, Any]) -> str:
    """One line: how many subjects, what is broken, what got worse."""
    subjects = document["subjects"]
    nights = document.get("nights") or {}
    worse = [s for s in nights.get("subjects", ()) if s["verdict"] == "worse"]
    grave = sum(v["verdict"] == "broken" and v["severity"] == "problem" for s in subjects for v in s["audits"].values())
    broken = sum(v["verdict"] == "broken" for s in subjects for v in s["audits"].values())
    end = nights.get("end") or document["window"]["end"] or "an unknown time"
    if not subjects:
        return f"Premise auditor, night of {end}: no engine was measured."
    parts = [f"{len(subjects)} subject{'' if len(subjects) == 1 else 's'}"]
    parts.append(f"{broken} premises broken" + (f", {grave} of them problems" if grave else ""))
    if nights:
        names = ", ".join(str(s["labels"].get("model") or s["labels"]) for s in worse[:3])
        parts.append(f"{len(worse)} worse than before ({names})" if worse else "nothing worse than before")
    return f"Premise auditor, night of {end}: {'; '.join(parts)}."
