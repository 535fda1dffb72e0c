"""Where a nightly report goes besides its folder: a textfile, a Pushgateway, a webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.cli.inputs import read_transport
from auditor.model import OutputError, UsageError

if TYPE_CHECKING:
    from auditor.http import Transport


@contextmanager
def noted(problems: list[str], what: str) -> Iterator[None]:
    """Turn a failure into a line: one format or hand-over that fails must not take the others with it."""
    try:
        yield
    except OutputError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{what}: could not be written ({error.strerror or error})")
    except Exception as fault:  # noqa: BLE001  (a fault in one picture must not cost the hand-over)
        problems.append(f"{what}: failed with {type(fault).__name__}: {fault}")


class Handover:
    """Where a report goes besides the folder. What cannot work is said before anything is asked."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._textfile: str | None = values.get("textfile")
        self._pushgateway: str | None = values.get("pushgateway")
        self._webhook: str | None = values.get("webhook")
        if values.get("webhook_file"):
            if self._webhook:
                raise UsageError("--webhook and --webhook-file both name the webhook; give one of them")
            self._webhook = _read_address(values["webhook_file"])
        for name, url in (("--pushgateway", self._pushgateway), ("--webhook", self._webhook)):
            if url and not url.startswith(("http://", "https://")):
                raise UsageError(f"{name} needs an address that begins with http:// or https://")
        if self._textfile and not self._textfile.endswith(".prom"):
            raise UsageError(f"--textfile {self._textfile}: the collector reads only names that end in .prom")
        self._transport = self._make_transport(values)

    @staticmethod
    def _make_transport(values: Mapping[str, Any]) -> Transport:
        # The credentials of the engines and the metrics server are nobody else's.
        transport = replace(
            # Said once, by those who read the evidence.
            read_transport({**values, "header": ()}, aloud=False),
            token_file=values.get("handover_token_file"),
            basic_auth_file=values.get("handover_basic_auth_file"),
            client_cert=None,
        )
        transport.check()
        return transport

    def run(self, document: Mapping[str, Any]) -> list[str]:
        """Hand over; returns what failed, one sentence each."""
        problems: list[str] = []
        for what, wanted, deliver in (
            ("textfile", self._textfile, self._write),
            ("Pushgateway", self._pushgateway, self._push),
            ("webhook", self._webhook, self._post),
        ):
            if wanted:
                with noted(problems, what):
                    deliver(wanted, document)
        return problems

    def _write(self, path: str, document: Mapping[str, Any]) -> None:
        from auditor.delivery import write_textfile

        write_textfile(path, _exposition(document))

    def _push(self, url: str, document: Mapping[str, Any]) -> None:
        from auditor.delivery import push

        push(url, _exposition(document), transport=self._transport)

    def _post(self, url: str, document: Mapping[str, Any]) -> None:
        from auditor.delivery import post
        from auditor.delivery.webhook import summarise

        post(url, summarise(document), transport=self._transport)


def _exposition(document: Mapping[str, Any]) -> str:
    from auditor.outputs import load_outputs
    from auditor.outputs.text import RenderOptions

    rendered = load_outputs()["prometheus"].render(document, RenderOptions())
    return rendered.decode() if isinstance(rendered, bytes) else rendered


def _read_address(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"--webhook-file {path}: cannot be read") from None
