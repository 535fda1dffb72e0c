"""How to talk to a server: limits, credentials, trust. Checked before anything is sent."""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from auditor.http.errors import clean_url
from auditor.model import UsageError

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_FILE_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True)
class Transport:
    """All that the caller decides about talking to a server. Its repr holds no secret."""

    timeout_seconds: float = 10.0
    """The whole of one request: name, connection, TLS, redirects, headers and body."""
    max_body_bytes: int = 64 * 2**20
    """Largest body, counted after decompression."""
    headers: tuple[tuple[str, str], ...] = ()
    token_file: str | None = None
    """File with a bearer token, read at each request (tokens rotate)."""
    basic_auth_file: str | None = None
    """File with ``user:password``, read at each request."""
    ca_cert: str | None = None
    """PEM file or directory of the authorities to trust instead of the usual ones."""
    client_cert: str | None = None
    """PEM file with certificate and key, or ``CERT,KEY`` when they are two files."""
    insecure: bool = False
    allow_redirects: bool = False
    """Follow redirects to another host; those to the same host are always followed."""

    def __repr__(self) -> str:
        headers = ", ".join(f"{name}: ***" for name, _ in self.headers)
        return (
            f"Transport(timeout_seconds={self.timeout_seconds}, max_body_bytes={self.max_body_bytes}, "
            f"headers=[{headers}], token_file={self.token_file!r}, basic_auth_file={self.basic_auth_file!r}, "
            f"ca_cert={self.ca_cert!r}, client_cert={self.client_cert!r}, insecure={self.insecure}, "
            f"allow_redirects={self.allow_redirects})"
        )

    def check(self) -> None:
        """Raise :class:`UsageError` for whatever cannot work, before the network is touched."""
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            raise UsageError(f"--timeout must be a number of seconds above 0, not {self.timeout_seconds}")
        if self.max_body_bytes <= 0:
            raise UsageError(f"--max-body must be above 0 bytes, not {self.max_body_bytes}")
        self._check_headers()
        if self.ca_cert is not None:
            _check_authorities(self.ca_cert)
        if self.client_cert is not None:
            _check_client_certificate(self.client_cert)

    def _check_headers(self) -> None:
        for name, value in self.headers:
            if not _HEADER_NAME.fullmatch(name):
                raise UsageError('--header wants "Name: value"; one of them has a name no HTTP header can have')
            if any((ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 or ord(c) > 255 for c in value):
                raise UsageError(f"--header {name}: the value holds characters that no HTTP header can have")
        ways = [
            ("--token-file", self.token_file is not None),
            ("--basic-auth-file", self.basic_auth_file is not None),
            ("--header Authorization", any(name.lower() == "authorization" for name, _ in self.headers)),
        ]
        given = [option for option, is_given in ways if is_given]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} contradict each other; give one of them")

    def merge_headers(self) -> dict[str, str]:
        """The caller's headers, values of a repeated name joined as RFC 9110, 5.3 allows."""
        merged: dict[str, tuple[str, str]] = {}
        for name, value in self.headers:
            known = merged.get(name.lower())
            merged[name.lower()] = (
                (name, value.strip()) if known is None else (known[0], f"{known[1]}, {value.strip()}")
            )
        return dict(merged.values())


class Credentials:
    """The ``Authorization`` of each request, from the files of a transport or from the address."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pipes: dict[str, str] = {}
        self.authorization()

    def __repr__(self) -> str:
        return "Credentials(***)"

    def authorization(self) -> str | None:
        """The header's value from a file, read now. Raises UsageError that does not show the content."""
        if (path := self._transport.token_file) is not None:
            token = self._read(path, "--token-file").strip()
            if not token or not all("!" <= c <= "~" for c in token):
                raise UsageError(f"--token-file {path}: this file must hold one token on one line and nothing else")
            return f"Bearer {token}"
        if (path := self._transport.basic_auth_file) is not None:
            pair = self._read(path, "--basic-auth-file").strip("\r\n")
            user, colon, password = pair.partition(":")
            if not (user and colon) or not pair.isprintable():
                raise UsageError(f"--basic-auth-file {path}: this file must hold one line, user:password")
            return basic_authorization(user, password)
        return None

    def _read(self, path: str, option: str) -> str:
        if path in self._pipes:
            return self._pipes[path]
        try:
            with open(path, "rb") as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                content = file.read(_SECRET_FILE_LIMIT_BYTES + 1)
        except (OSError, ValueError) as problem:
            raise UsageError(f"{option} {path}: {_why(problem)}") from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{option} {path}: this file is not text") from None
        if len(content) > _SECRET_FILE_LIMIT_BYTES:
            raise UsageError(f"{option} {path}: this file is too long")
        if not is_file:
            # A pipe, as from <(command), gives its content once.
            self._pipes[path] = text
        return text


def basic_authorization(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def split_credentials(url: str) -> tuple[str, str | None]:
    """An address as (address without credentials, ``Authorization`` from ``user:password@`` or None).

    Raises :class:`UsageError` for what is no http or https address; the message holds no credentials.
    """
    shown = clean_url(url)
    if any(not c.isprintable() or c.isspace() for c in url):
        raise UsageError(f"{shown}: an address holds no spaces and no control characters")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError(
            f"{shown} is not an address; in user:password@ the characters / ? # @ are written %2F %3F %23 %40"
        ) from None
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{shown}: only addresses that begin with http:// or https:// can be asked")
    if not parts.hostname:
        raise UsageError(f"{shown}: this address names no host")
    userinfo, at, place = parts.netloc.rpartition("@")
    bare = urlunsplit((parts.scheme, place, parts.path, parts.query, ""))
    if not at:
        return bare, None
    user, _, password = userinfo.partition(":")
    return bare, basic_authorization(unquote(user), unquote(password))


def client_certificate_files(option: str) -> tuple[str, str | None]:
    """``--client-cert`` as (certificate file, key file or None when both stand in one)."""
    if not Path(option).exists() and "," in option:
        certificate, _, key = option.partition(",")
        return certificate, key
    return option, None


def secrets_in(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The words that must not be shown, should a server send them back; longest first."""
    words: set[str] = set()
    for name, value in headers.items():
        words.add(value)
        if name.lower() == "authorization":
            scheme, _, secret = value.partition(" ")
            words.add(secret)
            if scheme == "Basic":
                words |= _pair_words(secret)
    return tuple(sorted((word for word in words if len(word) >= 4), key=len, reverse=True))


def _pair_words(encoded: str) -> set[str]:
    try:
        pair = base64.b64decode(encoded).decode("utf-8", "replace")
    except binascii.Error:
        return set()
    return {pair, pair.partition(":")[2]}


def _why(problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file"
    if isinstance(problem, PermissionError):
        return "this file may not be read by this user"
    if isinstance(problem, IsADirectoryError):
        return "this is a directory"
    return "this file cannot be read"


def _check_authorities(path: str) -> None:
    import ssl

    try:
        if Path(path).is_dir():
            next(Path(path).iterdir(), None)
            return
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        raise UsageError(f"--ca-cert {path}: this file holds no certificate in PEM form") from None
    except (OSError, ValueError) as problem:
        raise UsageError(f"--ca-cert {path}: {_why(problem)}") from None


def _check_client_certificate(option: str) -> None:
    import ssl

    certificate, key = client_certificate_files(option)
    for path in (certificate, key):
        if path is not None and not Path(path).exists():
            raise UsageError(f"--client-cert {path}: there is no such file")
    asked = False

    def note_password_asked() -> str:
        nonlocal asked
        asked = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=note_password_asked)
    except (ssl.SSLError, OSError, ValueError) as problem:
        if asked:
            raise UsageError(f"--client-cert {option}: the key is encrypted; give one without a password") from None
        if isinstance(problem, ssl.SSLError):
            raise UsageError(
                f"--client-cert {option}: wanted are a certificate and the key that belongs to it, "
                "in PEM form (one file, or CERT,KEY)"
            ) from None
        raise UsageError(f"--client-cert {option}: {_why(problem)}") from None
