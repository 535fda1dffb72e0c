"""What one page is and what can be had from it: engine, form of the names, release, gaps, unknown series.

Pure: a page (and, for what can be read, the subjects built from it) in, a diagnosis out. Whether it could be fetched
and how many machines stand behind its name is found elsewhere and handed in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.measures.readings import READINGS
from auditor.measures.readings.rates import NO_LENGTH
from auditor.measures.subject import Subject
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, Declaration, Engine, Form, Vocabulary, unknown_names
from auditor.model import Page, TargetWindow

CAN_BE_HAD = frozenset({"measured", "partial", "bounded"})
# Settings that no page of an engine tells, with what gives them.
OFF_PAGE: Mapping[str, str] = {
    "budget": "--budget N",
    "threshold": "--threshold N",
    "seats": "--seats N",
    "context": "--context N",
    "block_size": "--block-size N",
}


@dataclass(frozen=True)
class Release:
    """What the series on a page say of the engine's release, which it does not name."""

    least: str | None
    most: str | None
    signs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"least": self.least, "most": self.most, "signs": list(self.signs)}


@dataclass(frozen=True)
class Capability:
    """One reading: whether this page can give it, and if not, why and what would bring it."""

    reading: str
    can: bool
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"reading": self.reading, "can": self.can, "reason": self.reason}


@dataclass(frozen=True)
class Diagnosis:
    """Everything the doctor says of one target."""

    address: str
    state: str
    """``recognised``, ``not_an_engine`` or ``failed``."""
    reason: str | None = None
    engine: str | None = None
    title: str | None = None
    form: str | None = None
    note: str | None = None
    version: str | None = None
    release: Release = Release(None, None, ())
    samples_read: int = 0
    models: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    multiprocess: bool = False
    addresses: tuple[str, ...] = ()
    old_names: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    settings_missing: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def recognised(self) -> bool:
        return self.state == "recognised"

    def to_json(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "state": self.state,
            "reason": self.reason,
            "engine": self.engine,
            "title": self.title,
            "form": self.form,
            "note": self.note,
            "version": self.version,
            "release": self.release.to_json(),
            "samples_read": self.samples_read,
            "models": list(self.models),
            "ranks": list(self.ranks),
            "multiprocess": self.multiprocess,
            "addresses": list(self.addresses),
            "old_names": list(self.old_names),
            "unknown": list(self.unknown),
            "missing": list(self.missing),
            "capabilities": [c.to_json() for c in self.capabilities],
            "settings": dict(self.settings),
            "settings_missing": dict(self.settings_missing),
            "remarks": list(self.remarks),
        }


def diagnose_failure(address: str, reason: str, *, addresses: Sequence[str] = ()) -> Diagnosis:
    """A target that gave no page."""
    return Diagnosis(address, "failed", reason, addresses=tuple(addresses), remarks=balancer_remarks(addresses))


def diagnose(
    target: TargetWindow,
    page: Page,
    vocabulary: Vocabulary,
    subjects: Sequence[Subject],
    *,
    addresses: Sequence[str] = (),
) -> Diagnosis:
    """Say what a page is.

    Args:
        target: the page as :func:`~auditor.measures.targets.build_target` takes it, a lifetime of one scrape.
        subjects: what the page adds up to, one a model; empty where it is no engine's page.
        addresses: what its host name resolves to.
    """
    base = Diagnosis(
        address=target.address,
        state="not_an_engine",
        reason=target.reason,
        samples_read=page.samples_read,
        addresses=tuple(addresses),
        remarks=balancer_remarks(addresses),
    )
    if target.state != "measured" or target.engine is None:
        return base
    engine = vocabulary.engine(target.engine)
    form = engine.form(target.form)
    return replace(
        base,
        state="recognised",
        engine=engine.name,
        title=engine.title,
        form=form.prefix,
        note=form.note or None,
        version=target.version,
        release=guess_release(engine, form, page.names_read),
        models=tuple(sorted({p.model for s in subjects for p in s.parts if p.model is not None})),
        ranks=tuple(sorted({p.rank for s in subjects for p in s.parts if p.rank is not None})),
        multiprocess=any(p.multiprocess for s in subjects for p in s.parts),
        old_names=old_names(engine, form, page.names_read),
        unknown=tuple(unknown_names(engine, form.prefix, page.names_read)),
        missing=missing_core(engine, form, page.names_read),
        capabilities=capabilities(subjects),
        settings={k: v.to_json() for s in subjects for k, v in sorted(s.settings.items())},
        settings_missing=_settings_missing(subjects),
        remarks=(*base.remarks, *_page_remarks(engine, form, subjects)),
    )


# --------------------------------------------------------------------------- names


def _names_on(page_names: frozenset[str], exported: str, kind: str) -> bool:
    """Whether a series is on the page, in the ways in which formats write it."""
    if kind == "histogram":
        return any(exported + suffix in page_names for suffix in HISTOGRAM_SUFFIXES)
    return exported in page_names or (kind == "counter" and exported.removesuffix("_total") in page_names)


def _on_page(engine: Engine, form: Form, names: frozenset[str], q: Declaration) -> list[int]:
    return [i for i, s in enumerate(q.series) if _names_on(names, engine.exported(s, form.prefix), q.kind)]


def missing_core(engine: Engine, form: Form, names: Iterable[str]) -> tuple[str, ...]:
    """Series that every release has and this page has not, under the name this form would give them.

    A form that leaves out what never moved misses gauges only.
    """
    read = frozenset(names)
    return tuple(
        engine.exported(q.series[0], form.prefix)
        for q in engine.quantities.values()
        if q.core
        and not (form.sparse_counters and q.kind in ("counter", "histogram"))
        and not _on_page(engine, form, read, q)
    )


def old_names(engine: Engine, form: Form, names: Iterable[str]) -> tuple[str, ...]:
    """Series on the page that newer releases call by another name."""
    read = frozenset(names)
    out = []
    for q in engine.quantities.values():
        out += [engine.exported(q.series[i], form.prefix) for i in _on_page(engine, form, read, q) if i > 0]
    return tuple(sorted(out))


def guess_release(engine: Engine, form: Form, names: Iterable[str]) -> Release:
    """Bounds of the release from series that came or went with one; None where nothing tells."""
    read = frozenset(names)
    least: list[str] = []
    most: list[str] = []
    signs = []
    for sign in engine.traits.get("release_signs", ()):
        exported = engine.exported(sign["series"], form.prefix)
        if not any(_names_on(read, exported, kind) for kind in ("counter", "gauge", "histogram")):
            continue
        signs.append(exported)
        least += [sign["least"]] if "least" in sign else []
        most += [sign["most"]] if "most" in sign else []
    return Release(max(least, key=_version, default=None), min(most, key=_version, default=None), tuple(signs))


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in text.split("."))


# --------------------------------------------------------------------------- what can be read


def capabilities(subjects: Sequence[Subject]) -> tuple[Capability, ...]:
    """Each reading, in report order: can it be had from pages like this one, and if not, what would bring it.

    A reading that only lacks traffic or the window's length can be had; what it waits for is said.
    """
    if not subjects:
        return ()
    return tuple(_capability(name, subjects) for name in READINGS)


def _capability(name: str, subjects: Sequence[Subject]) -> Capability:
    found = [s.read(name) for s in subjects]
    if any(r.state in CAN_BE_HAD for r in found):
        return Capability(name, True)
    if any(r.reason == NO_LENGTH for r in found):
        return Capability(name, True, "with the window's length: two scrapes, or --seconds N")
    idle = next((r for r in found if r.state == "no_traffic"), None)
    if idle is not None:
        return Capability(name, True, f"once there is traffic: {idle.reason}")
    return Capability(name, False, found[0].reason or found[0].state)


def _settings_missing(subjects: Sequence[Subject]) -> dict[str, str]:
    known = {name for s in subjects for name in s.settings}
    return {name: option for name, option in OFF_PAGE.items() if subjects and name not in known}


# --------------------------------------------------------------------------- remarks


def balancer_remarks(addresses: Sequence[str]) -> tuple[str, ...]:
    """A name with several addresses of one family is a balancer; one of each family is one host, twice."""
    families: dict[int, list[str]] = {}
    for text in addresses:
        address = ipaddress.ip_address(text)
        if not address.is_loopback:
            families.setdefault(address.version, []).append(text)
    several = next((found for _, found in sorted(families.items()) if len(found) > 1), None)
    if several is None:
        return ()
    named = ", ".join(several[:4]) + (", ..." if len(several) > 4 else "")
    return (
        f"the name resolves to {len(several)} addresses ({named}): "
        "a balancer, whose pages come from one replica or another; --expand-dns takes each address as a target",
    )


def _page_remarks(engine: Engine, form: Form, subjects: Sequence[Subject]) -> tuple[str, ...]:
    out = []
    if form.rebuilt_sums:
        out.append("histogram sums on this page are rebuilt: times and lengths are known as ranges only")
    if any(p.multiprocess for s in subjects for p in s.parts):
        out.append("no process start time and no creation times (several processes share the page, or it is filtered): "
                   "a restart shows only as counters that fall")  # fmt: skip
    if engine.traits.get("resets_on_scrape"):
        out.append(str(engine.traits["resets_on_scrape"]))
    doubles = sorted({name for s in subjects for p in s.parts for name in p.doubles})
    if doubles:
        out.append(f"two names side by side for {', '.join(doubles)}: counted once")
    flaws = {f"{name}: {reason}" for s in subjects for p in s.parts for name, reason in p.flaws.items()}
    out += sorted(flaws)
    return tuple(out)


def doctor_document(diagnoses: Sequence[Diagnosis], *, tool: str) -> dict[str, Any]:
    """The JSON document of a visit; exit code 0 when an engine was recognised, else 3."""
    return {
        "schema": 1,
        "kind": "doctor",
        "tool": tool,
        "targets": [d.to_json() for d in diagnoses],
        "exit_code": 0 if any(d.recognised for d in diagnoses) else 3,
    }
