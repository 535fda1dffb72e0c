"""Bodies: whole or an error, and never more of them in memory than allowed."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import requests

from auditor.http.deadline import Attempt, DeadlinePassed
from auditor.http.errors import printable_start
from auditor.http.failures import FAILURES

CHUNK_BYTES = 64 * 1024
ERROR_BODY_BYTES = 8 * 1024


def read_body(answer: requests.Response, attempt: Attempt, cap: int) -> bytes | None:
    """The body, or None as soon as it is larger than ``cap``."""
    with io.BytesIO() as page:
        for piece in _decoded(answer, attempt):
            if page.tell() + len(piece) > cap:
                return None
            page.write(piece)
        return page.getvalue()


class BadEncodingError(Exception):
    """The body is not what its Content-Encoding says, or in an encoding that nobody asked for."""


def _decoded(answer: requests.Response, attempt: Attempt) -> Iterator[bytes]:
    """The body in pieces of at most CHUNK_BYTES, so that a bomb is met before it has unfolded."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise BadEncodingError("the body is compressed in a way that was not asked for (only gzip is read)")
    if answer.headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked":
        raise BadEncodingError("the body is sent in a way that was not asked for (only chunked is read)")
    gunzip = _Gunzip() if "gzip" in encoding else None
    # read1, not stream: urllib3's own reader takes a chunk of length -1 for "all there is", without a limit.
    while chunk := answer.raw.read1(CHUNK_BYTES, decode_content=False):
        attempt.body_bytes += len(chunk)
        for piece in [chunk] if gunzip is None else gunzip.unfold(chunk):
            if attempt.is_cut:
                raise DeadlinePassed
            yield piece
    if gunzip is not None and not gunzip.is_complete:
        raise BadEncodingError(f"the gzip body breaks off after {attempt.body_bytes} bytes; try again")


class _Gunzip:
    """gzip, member after member, in pieces. urllib3's own decoder does not notice a body that is cut."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self.is_complete = True

    def unfold(self, data: bytes) -> Iterator[bytes]:
        piece = b""
        while data or len(piece) == CHUNK_BYTES:
            if self._member.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._member = zlib.decompressobj(31)
            try:
                piece = self._member.decompress(data, CHUNK_BYTES)
            except zlib.error:
                raise BadEncodingError(
                    "the body says it is gzip and is not; check the server or a proxy between"
                ) from None
            data = self._member.unconsumed_tail or self._member.unused_data
            self.is_complete = self._member.eof
            yield piece


def read_error_body(answer: requests.Response, attempt: Attempt, secrets: tuple[str, ...]) -> str:
    """The start of an error's page; whatever is wrong with it, the status says more."""
    start = b""
    try:
        for piece in _decoded(answer, attempt):
            start += piece
            if len(start) >= ERROR_BODY_BYTES:
                break
    except (*FAILURES, BadEncodingError):
        pass
    return printable_start(start[:ERROR_BODY_BYTES].decode("utf-8", "replace"), secrets)
