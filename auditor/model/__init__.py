"""The words of the project as frozen types, and their JSON.

Data flows one way: Page -> Window -> Part -> Subject of readings -> Verdict, Lever -> Report. Every
stage reads the types of the stage before and knows nothing of the one behind it.
"""

from auditor.model.judgements import Example, Lever, Range, Verdict
from auditor.model.pages import Page, PageShape, Sample, SeriesKey, SeriesKeys
from auditor.model.quantities import (
    Counter,
    Gauge,
    Histogram,
    Info,
    LogEvidence,
    Part,
    Quantity,
    Slice,
    iter_quantities,
)
from auditor.model.readings import Claim, Options, Reading, Readings, Setting
from auditor.model.report import Report, SubjectReport
from auditor.model.windows import Series, SeriesTable, TargetWindow, Window
from auditor.model.words import (
    HAS_VALUE,
    SCHEMA,
    AuditorError,
    EvidenceError,
    Labels,
    OutputError,
    QuantityKind,
    Severity,
    State,
    TargetState,
    UsageError,
    VerdictWord,
    WindowKind,
    dump_json,
    sort_labels,
    utc_text,
)

__all__ = [
    "HAS_VALUE",
    "SCHEMA",
    "AuditorError",
    "Claim",
    "Counter",
    "EvidenceError",
    "Example",
    "Gauge",
    "Histogram",
    "Info",
    "Labels",
    "Lever",
    "LogEvidence",
    "Options",
    "OutputError",
    "Page",
    "PageShape",
    "Part",
    "Quantity",
    "QuantityKind",
    "Range",
    "Reading",
    "Readings",
    "Report",
    "Sample",
    "Series",
    "SeriesKey",
    "SeriesKeys",
    "SeriesTable",
    "Setting",
    "Severity",
    "Slice",
    "State",
    "SubjectReport",
    "TargetState",
    "TargetWindow",
    "UsageError",
    "Verdict",
    "VerdictWord",
    "Window",
    "WindowKind",
    "dump_json",
    "iter_quantities",
    "sort_labels",
    "utc_text",
]
