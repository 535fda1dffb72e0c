"""What a body is before its lines are read: gzip, another kind of document, cut off, or two pages in one."""

from __future__ import annotations

import io
import re
from typing import Literal

from auditor.model import EvidenceError

LARGEST_PAGE_BYTES = 64 * 2**20
PageErrorKind = Literal["empty", "html", "cut", "not_exposition", "too_many"]

_GZIP_MAGIC = b"\x1f\x8b"
_JSON = re.compile(rb'\[|\{\s*(?:"[^"]*"\s*:|\})')


class PageError(EvidenceError):
    """A body that is no whole metrics page. The message is one sentence that stands on its own."""

    def __init__(self, kind: PageErrorKind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: PageErrorKind = kind


def read_body(data: bytes) -> bytes:
    """The bytes of a saved page, unpacked if they are gzip data (told by the first two bytes).

    Raises PageError: ``too_many`` above 64 MiB, packed or not; ``cut`` or ``not_exposition`` for gzip
    data that ends early or is damaged.
    """
    if data.startswith(_GZIP_MAGIC):
        import gzip
        import zlib

        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
                data = unpacked.read(LARGEST_PAGE_BYTES + 1)
        except EOFError:
            raise PageError("cut", "The gzip file ends early: save the page again.") from None
        except (OSError, zlib.error) as error:
            raise PageError("not_exposition", f"The gzip file is damaged ({error}).") from None
    if len(data) > LARGEST_PAGE_BYTES:
        raise PageError("too_many", f"The page is larger than {LARGEST_PAGE_BYTES // 2**20} MiB.")
    return data


def refuse_other_documents(body: bytes) -> None:
    """Raises PageError for an empty body, HTML and JSON."""
    start = body[:4096].lstrip()
    if not start and not body.strip():
        raise PageError("empty", "The body is empty: it holds no metrics.")
    if start.startswith(b"<"):
        raise PageError("html", "The body is an HTML or XML document, not a metrics page.")
    if _JSON.match(start):
        raise PageError("not_exposition", "The body is JSON, not a metrics page.")


def refuse_joined_pages(body: bytes) -> None:
    """Raises PageError where something follows ``# EOF``."""
    end = body.find(b"\n# EOF")
    rest = body[end + len(b"\n# EOF") :] if end >= 0 else b""
    if rest[:1] in (b"\r", b"\n") and rest.strip():
        raise PageError("not_exposition", "The page goes on after '# EOF': two pages were joined.")


def find_cut(body: bytes, content_type: str | None) -> str | None:
    """Why the page is not complete, or None. Cut inside a number, it would be read with a smaller one."""
    last_line = body[-64:].rstrip().rpartition(b"\n")[2]
    if last_line == b"# EOF":
        return None
    if content_type is not None and "application/openmetrics-text" in content_type.lower():
        return "The page was cut off: OpenMetrics text must end with the line '# EOF'."
    if not body.endswith(b"\n"):
        return "The page was cut off: its last line does not end with a newline."
    return None


def quote(text: str, longest: int = 120) -> str:
    """Text from a page, safe for a terminal and short."""
    return repr(text if len(text) <= longest else text[:longest] + "...")
