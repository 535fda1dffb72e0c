"""Many pages of like engines: taken apart once, then read as numbers.

Two pages of one engine, and of two engines of one release and configuration, differ in the number at the end of
each sample's line and in nothing else. So the first of them is parsed by :func:`parse_page`, and what stands
before the numbers is remembered with the shape of the page that came out. A later page that is the same but for
its numbers has that shape; everything else, and every number of an unusual form, goes to ``parse_page``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import itemgetter

from auditor.model import Page, PageShape, SeriesKey
from auditor.sources.exposition import Wanted, parse_page, plain_series

MOST_SHAPES = 64
"""Kinds of pages that are remembered: engines, releases and configurations of one fleet."""
LARGEST_SHAPE_BYTES = 4 * 2**20
"""Larger pages hold a whole fleet already; no second one of the same shape is waited for."""
_PLAIN_NUMBERS = b"0123456789.eE+- "


class PageReader:
    """Reads pages exactly as :func:`parse_page` does, fast where they are alike. Threads may share one."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._moulds: dict[tuple[str | None, bool, bytes], _Mould | None] = {}

    def read(self, body: bytes, *, content_type: str | None = None) -> Page:
        """The wanted samples of a page.

        Raises PageError as ``parse_page`` does.
        """
        if len(body) > LARGEST_SHAPE_BYTES:
            return parse_page(body, content_type=content_type, wanted=self._wanted)
        heads, _, ends = zip(*[line.rpartition(b" ") for line in body.split(b"\n")], strict=True)
        # A last line of one space would look like the empty one after a newline; such a page was cut.
        before_numbers = (content_type, body.endswith(b"\n"), b"\n".join(heads))
        mould = self._moulds.get(before_numbers)
        page = mould.fill(ends) if mould is not None else None
        if page is None:
            page = parse_page(body, content_type=content_type, wanted=self._wanted)
            if before_numbers not in self._moulds and len(self._moulds) < MOST_SHAPES:
                self._moulds[before_numbers] = _make_mould(heads, ends, page.shape)
        return page


class _Mould:
    """Which line ends of a page are numbers of its shape, which must be numbers, and which must be the same words."""

    def __init__(self, shape: PageShape, kept: list[int], checked: list[int], words: dict[int, bytes]) -> None:
        self._shape = shape
        self._pick_numbers = itemgetter(*kept, *checked)
        self._numbers_kept = len(kept)
        self._pick_words = [i in words for i in range(max((*kept, *checked, *words)) + 1)]
        self._words = list(words.values())

    def fill(self, ends: Sequence[bytes]) -> Page | None:
        """The page with these line ends, or None where they are not what this mould expects."""
        if list(compress(ends, self._pick_words)) != self._words:
            return None
        text = b" ".join(self._pick_numbers(ends))
        # Of these characters, float() takes exactly what the text formats call a number.
        if text.translate(None, _PLAIN_NUMBERS):
            return None
        try:
            numbers = tuple(map(float, text.split(b" ")))
        except ValueError:
            return None
        return Page(self._shape, numbers[: self._numbers_kept])


def _make_mould(heads: Sequence[bytes], ends: Sequence[bytes], shape: PageShape) -> _Mould | None:
    """None where a line is of no plain form or a series stands twice: such pages are parsed one by one."""
    wanted = {name for name, _ in shape.keys}
    line_of: dict[SeriesKey, int] = {}
    checked: dict[str, int] = {}
    words: dict[int, bytes] = {}
    for i, head in enumerate(heads):
        if not head.strip() or head.lstrip().startswith(b"#"):
            words[i] = ends[i]
            continue
        series = plain_series(head)
        if series is None or series in line_of:
            return None
        if series[0] in wanted:
            line_of[series] = i
        else:
            # parse_page looks at the first line of a name that is not wanted.
            checked.setdefault(series[0], i)
    if len(line_of) != len(shape.keys) or len(line_of) + len(checked) < 2:
        return None
    if any(key not in line_of for key in shape.keys):
        return None
    return _Mould(shape, [line_of[key] for key in shape.keys], list(checked.values()), words)
