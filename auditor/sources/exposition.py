"""Page text -> samples: the classic text format (0.0.4, 1.0.0) and OpenMetrics 1.0.

A large fleet's page has 20 MB, most of it the same label pairs over and over. So a line of the plain form

    name{label="value",label="value"} number [timestamp]

is taken apart by two splits, and each distinct name, label pair, label text and number is parsed once. Of a
name that is not wanted only the first line is parsed: enough to tell a page from prose. A line of any other
form (escapes, quoted names, exemplars, odd spaces) goes to prometheus-client, imported for that only.

What is decided here, where the formats leave room or prometheus-client decides otherwise:

- A sample keeps the name and the label values that stood on its line; nothing is renamed or rounded.
- What OpenMetrics says on blank lines and on the meaning of a family (no negative counter, not interleaved)
  is not enforced: whoever reads the numbers judges them. Its ``# EOF`` is, and classic text's last newline.
- Bytes that are not UTF-8 become U+FFFD in label values and HELP texts; in a name they refuse the page.
- A series that stands twice with one value is one sample; with two values the page is refused.
- A line has one legal name, one value and at most one timestamp before its exemplar. prometheus-client skips
  what stands between, and so loses a series where two lines ran together; it takes any name before labels,
  and reads the line ``inf`` as a sample.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from itertools import repeat

from auditor.model import Labels, Page, PageShape, SeriesKey, sort_labels
from auditor.sources.bodies import PageError, find_cut, quote, refuse_joined_pages, refuse_other_documents

MOST_LINES = 1_000_000
"""Five times the largest page known. Bounds memory: 64 MiB of hostile lines could be ten million series."""
MOST_LIBRARY_WORK = 3 * 10**10
"""Bound for the sum of squared lengths of the lines that go to prometheus-client, whose time grows with the
square of a line's length. Enough for 200,000 lines of 300 bytes or one of 170 kB; a few seconds at worst."""

Wanted = Callable[[str], bool]
_Values = dict[Labels, float]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KINDS = frozenset(b"counter gauge histogram gaugehistogram summary info stateset unknown untyped".split())
_FAMILY_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_gcount", "_gsum", "_info")

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PAIR = re.compile(rb'(?!__)([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)')
_NUMBER = re.compile(
    rb"([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|NaN|[+-]Inf)(?: -?[0-9]++(?:\.[0-9]++)?)?\r?\n?"
)
_METADATA = re.compile(rb'#\s+(HELP|TYPE)(?:\s+(?:"((?:[^"\\]|\\.)++)"|(\S+)))?(?:\s+(.*))?', re.DOTALL)
_ODD_LINE = re.compile(
    r"""\s* (?: (?:[a-zA-Z_:][a-zA-Z0-9_:]*+ \s*+)? \{ (?: [^"}] | "(?: [^"\\] | \\. )*+" )*+ \} \s*+
           | [a-zA-Z_:][a-zA-Z0-9_:]*+ \s++ )  # name and labels, labels with a quoted name, or name
        \S++ (?: \s++ [^\s\#]\S*+ )?           # value, timestamp
        (?: \s++ \# .* )? \s*                  # exemplar""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\([\\n"])')
_HELP_ESCAPE = re.compile(r"\\([\\n])")


def parse_page(body: bytes, *, content_type: str | None = None, wanted: Wanted | None = None) -> Page:
    """The samples of a page whose name is wanted (all without ``wanted``), grouped by name.

    ``wanted`` is asked once per name. ``samples_read`` and ``names_read`` cover the whole page. ``kinds`` and
    ``helps`` cover all families without ``wanted``, else those that a kept sample may belong to. An untyped
    family is ``unknown``, and one described twice has its last description.

    An OpenMetrics page is told by its content type; no other content type is believed, since servers
    send pages as HTML and HTML as pages. A page that ends in ``# EOF`` is complete in either format.

    Raises PageError. Of names that are not wanted only the first line is checked.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    refuse_other_documents(body)
    if body.count(b"\n") > MOST_LINES:
        raise PageError("too_many", f"The page has more than {MOST_LINES:,} lines.")
    refuse_joined_pages(body)
    cut = find_cut(body, content_type)
    reader = _Reader(wanted)
    reader.read(body[: body.rfind(b"\n") + 1] if cut else body)
    if cut:
        if not reader.samples_read and not body.startswith(b"#"):
            reader.read(body[body.rfind(b"\n") + 1 :])
        raise PageError("cut", cut)
    if not reader.samples_read:
        raise PageError("empty", "The page has comments but no sample.")
    return reader.make_page()


def plain_series(head: bytes) -> SeriesKey | None:
    """Name and labels of a line up to the space before its number; None where the form is not the plain one."""
    name, brace, rest = head.partition(b"{")
    try:
        if not _NAME.fullmatch(name):
            return None
        if not brace:
            return name.decode(), ()
        return (name.decode(), _LabelSets()[rest[:-2]]) if rest.endswith(b'"}') else None
    except _OddError:
        return None


class _OddError(Exception):
    """A part of a line is not of the plain form: prometheus-client decides."""


class _Names(dict[bytes, "_Values | None"]):
    """Sample name -> its values by labels, or None where the name is not wanted."""

    def __init__(self, wanted: Wanted | None) -> None:
        self._wanted = wanted

    def __missing__(self, name: bytes) -> _Values | None:
        if not _NAME.fullmatch(name):
            raise _OddError
        return self.add(name)

    def add(self, name: bytes) -> _Values:
        """Where this line's value goes: nowhere if the name is not wanted, but the line is still parsed."""
        values: _Values = {}
        keep = self._wanted is None or self._wanted(name.decode())
        self[name] = values if keep else None
        return values


class _Pairs(dict[bytes, tuple[str, str]]):
    """``le="0.5`` (no closing quote) -> ("le", "0.5")."""

    def __missing__(self, text: bytes) -> tuple[str, str]:
        match = _PAIR.fullmatch(text)
        if match is None:
            raise _OddError
        self[text] = pair = (match[1].decode(), match[2].decode("utf-8", "replace"))
        return pair


class _LabelSets(dict[bytes, Labels]):
    """All between ``{`` and the last quote of a plain line -> the labels."""

    def __init__(self) -> None:
        self._pairs = _Pairs()

    def __missing__(self, text: bytes) -> Labels:
        labels = tuple(sorted(map(self._pairs.__getitem__, text.split(b'",'))))
        if len(dict(labels)) != len(labels):
            raise _OddError
        self[text] = labels
        return labels


class _Numbers(dict[bytes, float]):
    """Text of a number, perhaps with a timestamp and the end of the line -> the number."""

    def __missing__(self, text: bytes) -> float:
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise _OddError
        self[text] = number = float(match[1])
        return number


class _Reader:
    """Reads lines into tables of distinct texts."""

    def __init__(self, wanted: Wanted | None) -> None:
        self.samples_read = 0
        self._filtered = wanted is not None
        self._names = _Names(wanted)
        self._kinds: dict[bytes, bytes] = {}
        self._helps: dict[bytes, bytes] = {}
        self._library_work = 0

    def read(self, body: bytes) -> None:
        names, label_sets, numbers = self._names, _LabelSets(), _Numbers()
        line_number = without_sample = 0
        for line_number, line in enumerate(io.BytesIO(body), 1):
            try:
                name, brace, rest = line.partition(b"{")
                if brace:
                    values = names[name]
                    if values is None:
                        continue
                    text, _, number = rest.rpartition(b'"} ')
                    labels = label_sets[text]  # an empty text, found or not, is no label set
                elif line.startswith(b"#"):
                    without_sample += 1
                    self._read_comment(line.strip(), line_number)
                    continue
                else:
                    name, _, number = line.partition(b" ")
                    values = names[name]
                    if values is None:
                        continue
                    labels = ()
                value = numbers[number]
            except _OddError:
                stripped = line.strip()
                if not stripped or stripped.startswith(b"#"):
                    without_sample += 1
                    self._read_comment(stripped, line_number)
                    continue
                name, labels, value = self._read_odd_line(line, line_number)
                values = names[name] if name in names else names.add(name)
                if values is None:
                    continue
            known = values.setdefault(labels, value)
            if known is not value:
                _require_same(name.decode(), labels, known, value)
        self.samples_read += line_number - without_sample

    def _read_comment(self, line: bytes, line_number: int) -> None:
        match = _METADATA.fullmatch(line)
        if match is None:
            return
        word, quoted, name, text = match[1], match[2], match[3], match[4] or b""
        if quoted is not None:
            name = _ESCAPE.sub(_unescape, quoted.decode("utf-8", "replace")).encode()
        elif name is None or not _NAME.fullmatch(name):
            raise _refuse_line(line, line_number)
        if word == b"HELP":
            self._helps[name] = text
        elif text in _KINDS:
            self._kinds[name] = text
        else:
            raise _refuse_line(line, line_number)

    def _read_odd_line(self, line: bytes, line_number: int) -> tuple[bytes, Labels, float]:
        """Name, labels and value as prometheus-client reads them."""
        self._library_work += len(line) ** 2
        if self._library_work > MOST_LIBRARY_WORK:
            raise PageError("too_many", "The page has too many or too long lines of an unusual form.")
        text = line.decode("utf-8", "replace")
        if not _ODD_LINE.fullmatch(text):
            raise _refuse_line(line, line_number)
        from prometheus_client.parser import text_string_to_metric_families

        try:
            # Without a TYPE line before it the library renames nothing.
            ((sample,),) = [family.samples for family in text_string_to_metric_families(text)]
        except (ValueError, IndexError, OverflowError):  # a label name of spaces only; a timestamp of 400 digits
            raise _refuse_line(line, line_number) from None
        return sample.name.encode(), sort_labels(sample.labels), _to_float(sample.value)

    def make_page(self) -> Page:
        keys: list[SeriesKey] = []
        numbers: list[float] = []
        for key, values in self._names.items():
            if values:
                keys.extend(zip(repeat(key.decode()), values))
                numbers.extend(values.values())
        kept = {key for key, values in self._names.items() if values is not None}
        kinds, helps = self._kinds, self._helps
        if self._filtered:
            families = kept | {k.removesuffix(s.encode()) for k in kept for s in _FAMILY_SUFFIXES}
            kinds = {k: v for k, v in kinds.items() if k in families}
            helps = {k: v for k, v in helps.items() if k in families}
        shape = PageShape(
            keys=tuple(keys),
            kinds={k.decode(): "unknown" if v == b"untyped" else v.decode() for k, v in kinds.items()},
            helps={k.decode(): _HELP_ESCAPE.sub(_unescape, v.decode("utf-8", "replace")) for k, v in helps.items()},
            samples_read=self.samples_read,
            names_read=frozenset(key.decode() for key in self._names),
        )
        return Page(shape, tuple(numbers))


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # the library gives whole numbers of any length as int
        return math.inf if value > 0 else -math.inf


def _require_same(name: str, labels: Labels, first: float, second: float) -> None:
    if first == second or (math.isnan(first) and math.isnan(second)):
        return
    pairs = ",".join(f'{key}="{value}"' for key, value in labels)
    series = quote(f"{name}{{{pairs}}}" if pairs else name)
    raise PageError("not_exposition", f"The page has series {series} twice, with values {first!r} and {second!r}.")


def _refuse_line(line: bytes, line_number: int) -> PageError:
    text = quote(line.decode("utf-8", "replace").strip())
    return PageError("not_exposition", f"Line {line_number} is not of a metrics page: {text}.")
