"""A metrics server, asked gently: few requests at a time, spaced, and again only after what can pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

from auditor.http import Client, Response, TransportError, clean_url
from auditor.model import EvidenceError, UsageError
from auditor.sources.prometheus.answers import Answer, read_answer, read_document, split_warnings
from auditor.sources.prometheus.refusals import LengthError, LimitError, QueryError, classify, sentence

Dialect = Literal["prometheus", "victoria"]
T = TypeVar("T")

CONCURRENCY = 4
QUERIES_PER_SECOND = 40.0
PAUSES_SECONDS = (0.5, 2.0)
"""Before the second and third try of what may pass."""
_DIALECT_PROBE = 'increase_pure({__name__="premise_auditor_dialect_probe"}[1m])'


@dataclass
class Tally:
    """What the asking cost."""

    queries: int = 0
    body_bytes: int = 0
    waited_seconds: float = 0.0
    """Added over queries: what the server and the network took."""


class MetricsServer:
    """The query API at one address. Safe to share between threads.

    Args:
        url: the address before ``/api/v1``, with whatever path prefix the server has.
    """

    def __init__(
        self,
        client: Client,
        url: str,
        *,
        concurrency: int = CONCURRENCY,
        queries_per_second: float = QUERIES_PER_SECOND,
        pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self._client = client
        self.base = api_base(url)
        self.address = clean_url(self.base)
        self.tally = Tally()
        self.clock_skew_seconds: float | None = None
        """Server's clock minus ours, from the first answer."""
        self.warnings: dict[str, int] = {}
        """What the server warned about the data, with the number of answers that did."""
        self.dialect: Dialect = "prometheus"
        self.title = "metrics server"
        self._concurrency = concurrency
        self._gap = 1.0 / queries_per_second
        self._pauses = tuple(pauses_seconds)
        self._lock = threading.Lock()
        self._next = 0.0
        self._get_only = False

    # ------------------------------------------------------------------ questions

    def instant(self, text: str, at: float) -> Answer:
        """An instant query at ``at`` (unix seconds)."""
        return self._query("query", {"query": text, "time": f"{at:.3f}"})

    def steps(self, text: str, start: float, end: float, step: float) -> Answer:
        """A range query: the value at ``start``, ``start + step``, ... up to ``end``."""
        form = {"query": text, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        if self.dialect == "victoria":
            # Otherwise it moves both ends to multiples of the step.
            form["nocache"] = "1"
        return self._query("query_range", form)

    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        """Values of a label among the series of a selector; from the index, so cheap and a little generous."""
        return self._list(f"label/{label}/values", selector, start, end)

    def label_names(self, selector: str, start: float, end: float) -> tuple[str, ...]:
        return self._list("labels", selector, start, end)

    def recognise(self, now: float) -> None:
        """Find out which dialect the server speaks, and its name and version where it tells.

        Raises:
            EvidenceError: nothing usable answers there.
        """
        try:
            self.instant(_DIALECT_PROBE, now)
            self.dialect, self.title = "victoria", "VictoriaMetrics"
        except QueryError:
            self.dialect, self.title = "prometheus", "Prometheus API"
        try:
            document = read_document(self._get("status/buildinfo", {}).body, address=self.address)
        except EvidenceError:
            return
        data = document.get("data")
        if isinstance(data, Mapping) and self.dialect == "prometheus":
            name = str(data.get("application") or "Prometheus API")
            self.title = f"{name} {data['version']}" if data.get("version") else name

    def map(self, work: Callable[[T], Answer], asks: Sequence[T]) -> list[Answer]:
        """Answers in order of the questions, a few at a time."""
        if len(asks) < 2:
            return [work(ask) for ask in asks]
        with ThreadPoolExecutor(max_workers=min(self._concurrency, len(asks))) as pool:
            futures = [pool.submit(work, ask) for ask in asks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                raise

    # ------------------------------------------------------------------ the asking

    def _query(self, path: str, form: Mapping[str, str]) -> Answer:
        limit = self._client.transport.timeout_seconds
        document = self._document(path, {**form, "timeout": f"{limit:g}s"})
        answer = read_answer(document, address=self.address)
        self._note(answer.warnings)
        return answer

    def _list(self, path: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        query = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        response = self._patiently(lambda: self._get(path, query))
        document = read_document(response.body, address=self.address)
        self._note(split_warnings(document)[0])
        data = document.get("data")
        if data is None:
            return ()
        if not isinstance(data, list):
            raise EvidenceError(f"{self.address}: the list of names has not the form that it should")
        return tuple(str(name) for name in data)

    def _note(self, warnings: Sequence[str]) -> None:
        with self._lock:
            for text in warnings:
                self.warnings[text] = self.warnings.get(text, 0) + 1

    def _document(self, path: str, form: Mapping[str, str]) -> Mapping[str, object]:
        response = self._patiently(lambda: self._get(path, form) if self._get_only else self._post(path, form))
        return read_document(response.body, address=self.address)

    def _patiently(self, ask: Callable[[], Response]) -> Response:
        for pause in (*self._pauses, None):
            try:
                return ask()
            except TransportError as error:
                kind = classify(error)
                may_pass = kind == "passing" or (error.kind == "refused" and self.tally.queries > 0)
                if may_pass and pause is not None:
                    time.sleep(pause)
                    continue
                if kind == "limit":
                    raise LimitError(sentence(error)) from None
                if kind == "length":
                    raise LengthError(f"{sentence(error)}. Shorten --match") from None
                if kind == "query":
                    raise QueryError(sentence(error)) from None
                asked = self.tally.queries
                cut = f" (it had answered {asked} queries before)" if may_pass and asked else ""
                raise EvidenceError(sentence(error) + cut) from None
        raise AssertionError("unreachable")

    def _post(self, path: str, form: Mapping[str, str]) -> Response:
        self._wait_turn()
        url = f"{self.base}/api/v1/{path}"
        try:
            response = self._client.send("POST", url, data=form, accept="application/json")
        except TransportError as error:
            if error.status != 405:
                raise
            # Some gateways let reading through as GET only.
            self._get_only = True
            return self._get(path, form)
        return self._count(response)

    def _get(self, path: str, query: Mapping[str, str]) -> Response:
        self._wait_turn()
        tail = f"?{urlencode(query)}" if query else ""
        return self._count(self._client.get(f"{self.base}/api/v1/{path}{tail}", accept="application/json"))

    def _wait_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap
        if turn > now:
            time.sleep(turn - now)

    def _count(self, response: Response) -> Response:
        with self._lock:
            self.tally.queries += 1
            self.tally.body_bytes += len(response.body)
            self.tally.waited_seconds += response.seconds
            if self.clock_skew_seconds is None and "Date" in response.headers:
                try:
                    told = parsedate_to_datetime(response.headers["Date"]).timestamp()
                except ValueError:
                    return response
                self.clock_skew_seconds = told - response.asked_at
        return response


def api_base(url: str) -> str:
    """The address without a trailing ``/api/v1`` and without a query.

    Raises:
        UsageError: no http or https address.
    """
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise UsageError(f"--prometheus {clean_url(url)}: give the address before /api/v1, without a query")
    path = parts.path.rstrip("/")
    for tail in ("/api/v1/query_range", "/api/v1/query", "/api/v1", "/graph"):
        path = path.removesuffix(tail)
    return urlunsplit(parts._replace(path=path.rstrip("/")))
