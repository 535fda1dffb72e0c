"""JUnit XML. A gate gives one case a premise and subject, an audit without a gate one case an audit and subject.

| gate | case | | audit | case |
|---|---|---|---|---|
| holds | passed | | holds | passed |
| broken | failure | | broken | failure |
| undecided | error | | error | error |
| waived, or broken or undecided as a warning | skipped | | undecided, not applicable | skipped |

A viewer turns red on a failure or an error, so a warning is neither; its message says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs._gate import decides, notes, place, sentence, subject_words, word
from auditor.outputs.text import RenderOptions, safe, safe_sentence, subject_title

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite

KINDS = frozenset({"audit"})


def render(document: Mapping[str, Any], options: RenderOptions) -> bytes:
    """XML of a report, encoded, with its declaration."""
    from junitparser import JUnitXml

    xml = JUnitXml(name="premise-auditor")
    suites = _gate_suites(document) if document.get("gate") else _audit_suites(document)
    for suite in suites:
        xml.add_testsuite(suite)
    if (evidence := _evidence(document)) is not None:
        xml.add_testsuite(evidence)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    return _bytes(xml)


def _bytes(xml: Any) -> bytes:
    from xml.etree import ElementTree

    return bytes(ElementTree.tostring(xml._elem, encoding="utf-8", xml_declaration=True)) + b"\n"


def _clean(text: object) -> str:
    """Without what XML 1.0 cannot hold even when escaped: control characters, surrogates, U+FFFE and U+FFFF."""
    return safe(text, longest=2000)


def _gate_suites(document: Mapping[str, Any]) -> list[TestSuite]:
    gate = document["gate"]
    suites: dict[str, TestSuite] = {}
    for premise in gate["premises"]:
        title = subject_words(premise) or "no subject"
        suite = suites.get(title)
        if suite is None:
            suite = suites[title] = _suite(title, document)
        suite.add_testcase(_gate_case(premise, title))
    return list(suites.values())


def _suite(title: str, document: Mapping[str, Any]) -> TestSuite:
    from junitparser import TestSuite

    suite = TestSuite(_clean(f"premises of {title}"))
    if document["window"].get("end"):
        suite.timestamp = str(document["window"]["end"])
    return suite


def _gate_case(premise: Mapping[str, Any], title: str) -> TestCase:
    from junitparser import Error, Failure, Skipped, TestCase

    case = TestCase(_clean(premise["name"]), _clean(title), 0.0)
    case._elem.set("file", _clean(premise["file"]))
    case._elem.set("line", str(premise["line"]))
    text = f"{place(premise)}: {sentence(premise)}"
    verdict = premise["verdict"]
    if verdict == "waived" or (verdict in ("broken", "undecided") and not decides(premise)):
        case.result = [Skipped(_clean(f"{word(premise)}: {text}"))]
    elif verdict == "broken":
        case.result = [_with_text(Failure(_clean(text), "broken"), premise)]
    elif verdict == "undecided":
        case.result = [_with_text(Error(_clean(text), "undecided"), premise)]
    else:
        case.system_out = _clean(text)
    return case


def _with_text(result: Any, premise: Mapping[str, Any]) -> Any:
    steps = [f"next: {_clean(step)}" for step in premise.get("next", ())]
    result.text = "\n".join([_clean(f"{place(premise)}: {sentence(premise)}"), *steps])
    return result


def _audit_suites(document: Mapping[str, Any]) -> list[TestSuite]:
    from junitparser import Error, Failure, Skipped, TestCase

    suites = []
    for subject in document["subjects"]:
        title = subject_title(subject["labels"])
        suite = _suite(title, document)
        for name, v in subject["audits"].items():
            case = TestCase(_clean(f"{name}: {v['premise']}"), _clean(title), 0.0)
            text = _clean(f"expected {v['expected']}, found {v['found']}; {v['summary']}")
            if v["verdict"] == "broken":
                case.result = [Failure(text, v["severity"])]
            elif v["verdict"] == "error":
                case.result = [Error(text, "error")]
            elif v["verdict"] != "holds":
                case.result = [Skipped(_clean(f"{v['verdict'].replace('_', ' ')}: {text}"))]
            else:
                case.system_out = text
            suite.add_testcase(case)
        suites.append(suite)
    return suites


def _evidence(document: Mapping[str, Any]) -> TestSuite | None:
    """Targets that gave nothing and reasons that decide nothing: they must not vanish from a CI page."""
    from junitparser import Error, Skipped, TestCase, TestSuite

    suite = TestSuite("evidence")
    gate = document.get("gate") or {}
    for i, reason in enumerate(gate.get("reasons", ()), 1):
        case = TestCase(f"evidence {i}", "evidence", 0.0)
        case.result = [Error(_clean(safe_sentence(reason)), "undecided")]
        suite.add_testcase(case)
    measured = any(t["state"] == "measured" for t in document["targets"])
    for target in document["targets"]:
        if target["state"] == "measured":
            continue
        case = TestCase(_clean(target["address"]), "targets", 0.0)
        text = _clean(f"{target['state'].replace('_', ' ')}: {target['reason']}")
        case.result = [Skipped(text) if measured else Error(text, target["state"])]
        suite.add_testcase(case)
    if gate:
        for i, note in enumerate((n for n in notes(gate) if not n.startswith("undecided: ")), 1):
            case = TestCase(f"note {i}", "evidence", 0.0)
            case.result = [Skipped(_clean(note))]
            suite.add_testcase(case)
    return suite if len(list(suite)) else None
