"""Page text -> samples.

Two sources of right answers: values read off by hand, and prometheus-client. Where we decide otherwise than
prometheus-client, a test of its own says so (class TestStricterAndLaxer).
"""

from __future__ import annotations

import gzip
import math
import random
import re
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_classic

from auditor.model import EvidenceError, Labels, Page
from auditor.sources import bodies
from auditor.sources.bodies import PageError, read_body
from auditor.sources.exposition import parse_page
from tests.benchmarks.big_page import make_big_page

FIXTURES = Path(__file__).parents[2] / "fixtures"
PAGES = FIXTURES / "pages"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
ALL_PAGES = sorted(
    path for pattern in ("*.prom", "*.prom.gz", "*.txt") for path in FIXTURES.rglob(pattern) if path.is_file()
)

Values = dict[tuple[str, Labels], str]
"""(name, labels) -> the repr of its value, so that NaN equals NaN."""


def values_of(page: Page) -> Values:
    values = {(s.name, s.labels): repr(s.value + 0.0) for s in page.samples}  # -0.0 becomes 0.0
    assert len(values) == len(page.samples), "two samples for one series"
    return values


def as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # prometheus-client gives an int of any size
        return math.copysign(math.inf, 1 if value > 0 else -1)


def drop_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.strip().startswith("#"))


def read_with_library(text: str) -> Values:
    """What prometheus-client reads, under the names on the lines. Raises what it raises.

    It adds ``_total`` to counters exposed without; with no TYPE line in sight it renames nothing. Two values
    for one series raise ValueError here: prometheus-client lets both through.
    """
    for _ in read_classic(text):  # refuses bad metadata lines as well
        pass
    values: Values = {}
    for family in read_classic(drop_comments(text)):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            value = repr(as_float(sample.value) + 0.0)
            if values.setdefault(key, value) != value:
                raise ValueError(f"two values for {key}")
    return values


def library_refuses(reader: Callable[[str], Iterable[Metric]], text: str) -> bool:
    try:
        list(reader(text))
    except ValueError:
        return True
    return False


def value(page: Page, name: str, **labels: str) -> float:
    found = [s.value for s in page.samples if s.name == name and labels.items() <= dict(s.labels).items()]
    assert len(found) == 1, found
    return found[0]


def refusal(body: bytes, **options: object) -> PageError:
    with pytest.raises(PageError) as caught:
        parse_page(body, **options)  # type: ignore[arg-type]
    sentence = str(caught.value)
    assert isinstance(caught.value, EvidenceError)
    assert caught.value.exit_code == 3
    assert sentence.endswith(".")
    assert sentence.isprintable()
    return caught.value


class TestRealPages:
    def test_there_are_pages(self) -> None:
        assert len(list(PAGES.iterdir())) >= 9
        assert len(ALL_PAGES) >= 8

    @pytest.mark.parametrize("path", ALL_PAGES, ids=lambda path: str(path.relative_to(FIXTURES)))
    def test_every_page_reads_as_prometheus_client_reads_it(self, path: Path) -> None:
        body = read_body(path.read_bytes())
        text = body.decode()
        try:
            expected = read_with_library(text)
        except ValueError:
            assert refusal(body)
            return
        if not expected or not body.endswith(b"\n"):
            assert refusal(body).kind in ("empty", "cut")
            return
        page = parse_page(body)
        assert values_of(page) == expected
        assert page.names_read == {name for name, _ in expected}
        assert page.samples_read == len([line for line in drop_comments(text).split("\n") if line.strip()])

    @pytest.mark.parametrize(
        "name", ["vllm-0.32.0.prom", "vllm-0.11.0.prom", "sglang-0.5.23.prom", "llamacpp-11434.prom"]
    )
    def test_families_are_described_as_prometheus_client_describes_them(self, name: str) -> None:
        text = (PAGES / name).read_text()
        page = parse_page(text.encode())
        theirs = {
            family.name.removesuffix("_total"): (family.type, family.documentation) for family in read_classic(text)
        }
        ours = {family.removesuffix("_total"): (kind, page.helps[family]) for family, kind in page.kinds.items()}
        assert ours == theirs
        assert set(page.kinds) == set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))

    def test_values_read_off_the_pages(self) -> None:
        # told by grep, and by grep -vc '^#' for the numbers of samples
        vllm = parse_page((PAGES / "vllm-0.32.0.prom").read_bytes())
        assert value(vllm, "vllm:request_success_total", finished_reason="length") == 43.0
        assert vllm.kinds["vllm:request_success_total"] == "counter"
        assert vllm.samples_read == 440
        llama = parse_page((PAGES / "llamacpp-11434.prom").read_bytes())
        assert value(llama, "llamacpp:tokens_predicted_seconds_total") == 112.939
        assert llama.samples_read == 15
        ray = parse_page(read_body((PAGES / "ray-2.60.0.prom.gz").read_bytes()))
        assert ray.samples_read == 852
        # the sum that Ray rebuilt from bucket middles: 2.0 s went in
        assert value(ray, "ray_vllm_request_prefill_time_seconds_sum") == 1.4999999999999998

    def test_a_plain_page_needs_no_library(self) -> None:
        code = """
            import sys
            from auditor.sources.bodies import read_body
            from auditor.sources.exposition import parse_page
            for path in sys.argv[1:]:
                parse_page(read_body(open(path, "rb").read()), wanted=lambda name: True)
                assert "prometheus_client" not in sys.modules, path
        """
        plain = [p for p in sorted(PAGES.iterdir()) if p.name[:4] in ("vllm", "sgla", "ray-", "llam", "rust")]
        assert len(plain) == 7
        subprocess.run([sys.executable, "-c", textwrap.dedent(code), *map(str, plain)], check=True)

    def test_openmetrics_gives_the_figures_of_its_classic_twin(self) -> None:
        openmetrics = (PAGES / "rust-front-end.openmetrics.txt").read_bytes()
        classic = parse_page((PAGES / "rust-front-end.classic.prom").read_bytes())
        for page in (parse_page(openmetrics), parse_page(openmetrics, content_type=OPENMETRICS)):
            assert value(page, "vllm:prompt_tokens_total") == 34567503
            assert value(page, "vllm:request_success_total", finished_reason="stop") == 9000
            assert value(page, "vllm:request_success_total", finished_reason="length") == 1000
            assert value(page, "vllm:num_requests_running") == 3
            assert values_of(page) == values_of(classic)
            assert page.kinds["vllm:prompt_tokens"] == "counter"
            assert "vllm:prompt_tokens_total" not in page.kinds
        theirs = {
            (s.name, tuple(sorted(s.labels.items()))): repr(float(s.value))
            for family in read_openmetrics(openmetrics.decode())
            for s in family.samples
        }
        assert values_of(parse_page(openmetrics)) == theirs

    def test_a_creation_time_keeps_its_own_name(self) -> None:
        page = parse_page((PAGES / "rust-front-end.openmetrics.txt").read_bytes())
        assert value(page, "vllm:prompt_tokens_created") == 1757795321.5
        assert [s.value for s in page.samples if s.name == "vllm:prompt_tokens_total"] == [34567503.0]


class TestFormsOfALine:
    def test_every_unusual_form(self) -> None:
        page = parse_page((PAGES / "unusual-forms.prom").read_bytes())
        assert {(s.name, s.labels): s.value for s in page.samples if s.name != "not_a_number"} == {
            ("escapes_total", (("lines", "a\nb"), ("path", "C:\\dir"), ("text", 'say "hi"'))): 1,
            ("exposed_without", (("a", "b"),)): 2,
            ("my.metric", (("a", "b"),)): 3,
            ("my.metric", (("my.label", "c"),)): 4,
            ("braces", (("a", "}{"), ("b", "x,y"), ("c", "# {"), ("d", "} 9"), ("e", 'k="v"'))): 5,
            ("timestamp", (("a", "b"),)): 6,
            ("exemplar_bucket", (("le", "1"),)): 7,
            ("exemplar_total", ()): 8,
            ("trailing_comma", (("a", "b"),)): 9,
            ("spaces", (("a", "b"), ("c", "d"))): 10,
            ("indented", ()): 11,
            ("no_labels", ()): 12,
            ("negative", ()): -13.5,
            ("exponent", ()): 1_000_000,
            ("fraction", ()): 0.5,
            ("up", ()): math.inf,
            ("down", ()): -math.inf,
            ("le_text_bucket", (("le", "1"),)): 14,
            ("le_text_bucket", (("le", "1.0"),)): 15,
        }
        assert math.isnan(value(page, "not_a_number"))
        assert page.samples_read == 20
        assert page.kinds == {"escapes_total": "counter", "exposed_without": "counter", "my.metric": "gauge"}
        assert page.helps == {"escapes_total": "A back\\slash and a new\nline."}

    def test_the_plain_path_takes_hard_label_values(self) -> None:
        page = parse_page(b'x{a="}{",b="x,y",c="# {",d="=",e="",f="\xc3\xa9\x1b[31m"} 5\n')
        labels = (("a", "}{"), ("b", "x,y"), ("c", "# {"), ("d", "="), ("e", ""), ("f", "é\x1b[31m"))
        assert page.samples == (("x", labels, 5.0),)

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("34567503", 34567503.0),
            ("1e+06", 1e6),
            ("1E-3", 0.001),
            ("-0.0", -0.0),
            ("+4", 4.0),
            ("5.", 5.0),
            ("1e400", math.inf),
            ("9" * 400, math.inf),
            ("-" + "9" * 400, -math.inf),
            ("9007199254740993", 9007199254740992.0),  # 2^53 + 1: no float has it
            ("infinity", math.inf),
            ("9" * 5000, math.inf),
        ],
    )
    @pytest.mark.parametrize("line", ["x {}\n", 'x{{a="b"}} {}\n', "x  {}\n", 'x{{a="b"}} {} 123\n', "x\t{}\n"])
    def test_numbers(self, line: str, text: str, number: float) -> None:
        (sample,) = parse_page(line.format(text).encode()).samples
        assert repr(sample.value) == repr(number)

    def test_windows_line_ends_and_byte_order_mark(self) -> None:
        body = (PAGES / "vllm-0.11.0.prom").read_bytes()
        assert parse_page(b"\xef\xbb\xbf" + body.replace(b"\n", b"\r\n")) == parse_page(body)
        openmetrics = (PAGES / "rust-front-end.openmetrics.txt").read_bytes()
        windows = b"\xef\xbb\xbf" + openmetrics.replace(b"\n", b"\r\n")
        assert parse_page(windows, content_type=OPENMETRICS) == parse_page(openmetrics)

    def test_blank_lines_count_for_nothing(self) -> None:
        page = parse_page(b"\n\n   \nx 1\n\n\t\ny 2\n\n")
        assert (page.samples_read, [s.name for s in page.samples]) == (2, ["x", "y"])

    def test_long_labels_and_lines_over_a_megabyte(self) -> None:
        long, longer = "v" * 10_000, "w" * 2_000_000
        page = parse_page(f'x{{a="{long}"}} 1\nx{{a="{longer}"}} 2\n# HELP y {longer}\ny 3\n'.encode())
        assert [s.labels for s in page.samples] == [(("a", long),), (("a", longer),), ()]
        escaped = '\\"' * 5_000  # 10 kB of quotes, which is for prometheus-client
        (sample,) = parse_page(f'x{{a="{escaped}"}} 1\n'.encode()).samples
        assert sample.labels == (("a", '"' * 5_000),)

    def test_bytes_that_are_not_utf8(self) -> None:
        page = parse_page(b'# HELP x caf\xe9\n# TYPE x gauge\nx{a="caf\xe9"} 1\nx{a="caf\xe9\\n"} 2\n')
        assert [s.labels for s in page.samples] == [(("a", "caf\ufffd"),), (("a", "caf\ufffd\n"),)]
        assert page.helps == {"x": "caf\ufffd"}
        assert refusal(b"caf\xe9 1\n").kind == "not_exposition"
        assert refusal(b'caf\xe9{a="b"} 1\n').kind == "not_exposition"

    def test_nul_bytes(self) -> None:
        (sample,) = parse_page(b'x{a="b\x00c"} 1\n').samples
        assert sample.labels == (("a", "b\x00c"),)
        assert refusal(b"x\x00 1\n").kind == "not_exposition"
        assert refusal(b"x 1\x00\n").kind == "not_exposition"
        assert refusal("x 1\n".encode("utf-16")).kind == "not_exposition"

    def test_a_counter_exposed_without_total_keeps_its_name(self) -> None:
        body = b'# TYPE hits counter\nhits{a="b"} 1\nhits{a="c\\n"} 2\n'
        assert parse_page(body).names_read == {"hits"}
        assert {s.name for f in read_classic(body.decode()) for s in f.samples} == {"hits_total"}

    def test_what_is_said_about_families(self) -> None:
        page = parse_page(b'# TYPE x untyped\n# HELP x say \\"hi\\"  twice\n#  TYPE\ty\tsummary\n# HELP z\nx 1\n')
        assert page.kinds == {"x": "unknown", "y": "summary"}
        assert page.helps == {"x": 'say \\"hi\\"  twice', "z": ""}

    def test_le_is_kept_as_text(self) -> None:
        page = parse_page(b'x_bucket{le="1"} 1\nx_bucket{le="1.0"} 1\n')
        assert [s.labels for s in page.samples] == [(("le", "1"),), (("le", "1.0"),)]

    def test_labels_are_sorted_by_name(self) -> None:
        (sample,) = parse_page(b'x{b="1",a="2",_c="3"} 1\n').samples
        assert sample.labels == (("_c", "3"), ("a", "2"), ("b", "1"))


class TestDuplicates:
    @pytest.mark.parametrize(
        "body",
        [
            b'x{a="b",c="d"} 1\nx{a="b",c="d"} 1\n',
            b'x{a="b",c="d"} 1\ny 2\nx{c="d",a="b"} 1.0\n',
            b'x{a="b",c="d"} 1\nx{c="d", a="b"} 1e0 1234\n',
            b'x{a="b",c="d"} NaN\nx{a="b",c="d"} nan\n',
        ],
    )
    def test_equal_ones_are_one_sample(self, body: bytes) -> None:
        page = parse_page(body)
        assert [s.labels for s in page.samples if s.name == "x"] == [(("a", "b"), ("c", "d"))]
        assert page.samples_read == body.count(b"\n")

    @pytest.mark.parametrize(
        "body",
        [
            b'x{a="b",c="d"} 1\nx{a="b",c="d"} 2\n',
            b'x{a="b",c="d"} 1\nx{c="d",a="b"} 2\n',
            b'x{a="b",c="d"} 1\nx{c="d", a="b"} 2\n',
            b'x{a="b",c="d"} 1\n{"x",c="d",a="b"} 2\n',
        ],
    )
    def test_differing_ones_refuse_the_page_and_name_the_series(self, body: bytes) -> None:
        error = refusal(body)
        assert error.kind == "not_exposition"
        assert str(error) == """The page has series 'x{a="b",c="d"}' twice, with values 1.0 and 2.0."""

    def test_nan_beside_a_number_differs(self) -> None:
        assert "'x' twice, with values nan and 1.0" in str(refusal(b"x NaN\nx 1\n"))

    def test_other_names_and_labels_are_other_series(self) -> None:
        assert len(parse_page(b'x 1\ny 2\nx{a="b"} 3\nx{a="c"} 4\nx{c="b"} 5\n').samples) == 5


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "kind", "words"),
        [
            (b"", "empty", "empty"),
            (b" \r\n\n", "empty", "empty"),
            (b"\xef\xbb\xbf", "empty", "empty"),
            (b"# HELP x y\n# TYPE x counter\n", "empty", "no sample"),
            (b"# EOF\n", "empty", "no sample"),
            (b"<!DOCTYPE html><html><body>Sign in</body></html>", "html", "HTML"),
            (b"\n  <html>\n", "html", "HTML"),
            (b'{"error": {"code": 404}}', "not_exposition", "JSON"),
            (b'[\n  {"a": 1}\n]\n', "not_exposition", "JSON"),
            (b"{}", "not_exposition", "JSON"),
            (b"Not Found", "not_exposition", "Line 1"),
            (b"upstream connect error\n", "not_exposition", "Line 1"),
            (b'x{a="b"} 1\nvllm:y{a="b} 2\n', "not_exposition", "Line 2"),
            (b'x{a="b"} 1\ny{a="b"}\n', "not_exposition", "Line 2"),
            (b'x{a="b"} 1\ny\n', "not_exposition", "Line 2"),
            (b'x{a="b",a="c"} 1\n', "not_exposition", "Line 1"),
            (b'x{__name__="y"} 1\n', "not_exposition", "Line 1"),
            (b'x{__reserved="y"} 1\n', "not_exposition", "Line 1"),
            (b"x 1_000\n", "not_exposition", "Line 1"),
            (b"x 1,5\n", "not_exposition", "Line 1"),
            (b'x{"} 5\n', "not_exposition", "Line 1"),
            (b"x{5\n", "not_exposition", "Line 1"),
            (b'x{{}"} 5\n', "not_exposition", "Line 1"),
            (b'{"a", ="b"} 2\n', "not_exposition", "Line 1"),
            (b"# TYPE x count\nx 1\n", "not_exposition", "Line 1"),
            (b"# TYPE x\nx 1\n", "not_exposition", "Line 1"),
            (b"# HELP 1x y\nx 1\n", "not_exposition", "Line 1"),
            (b'x{a="b"} 1.0', "cut", "newline"),
            (b'x{a="b"} 1.0\nx{a="c"} 12', "cut", "newline"),
            (b'x{a="b"} 1.0\nx{a="c', "cut", "newline"),
            (b"# HELP x y\n# TY", "cut", "newline"),
            (b"x 1\n# EOF\nx 2\n# EOF\n", "not_exposition", "joined"),
        ],
    )
    def test_bodies(self, body: bytes, kind: str, words: str) -> None:
        error = refusal(body)
        assert error.kind == kind
        assert words in str(error)
        # prose and HTML are refused when nothing on the page is wanted, too
        if not (b"\n" in body.strip() and "Line" in words):
            assert refusal(body, wanted=lambda name: False).kind == kind

    @pytest.mark.parametrize("content_type", [None, "text/html", "text/plain", "application/json"])
    def test_only_openmetrics_is_believed_of_a_content_type(self, content_type: str | None) -> None:
        assert parse_page(b"x 1\n", content_type=content_type).samples_read == 1
        assert refusal(b"<html></html>\n", content_type=content_type).kind == "html"

    def test_openmetrics_must_end_in_eof(self) -> None:
        assert refusal(b"x 1\n", content_type=OPENMETRICS).kind == "cut"
        assert "# EOF" in str(refusal(b"x 1\n", content_type=OPENMETRICS.upper()))
        assert parse_page(b"x 1\n# EOF\n", content_type=OPENMETRICS).samples_read == 1
        assert parse_page(b"x 1\n# EOF", content_type=OPENMETRICS).samples_read == 1
        assert parse_page(b"x 1\n# EOF", content_type="text/plain").samples_read == 1

    def test_a_page_cut_anywhere_is_refused_or_misses_whole_lines(self) -> None:
        body = (PAGES / "llamacpp-11434.prom").read_bytes()
        whole = values_of(parse_page(body))
        for end in range(len(body)):
            if body[:end].endswith(b"\n"):
                if b"\nllamacpp" in body[:end]:
                    assert values_of(parse_page(body[:end])).items() <= whole.items()
            else:
                assert refusal(body[:end]).kind in ("cut", "empty")

    def test_an_openmetrics_page_cut_anywhere_is_refused(self) -> None:
        body = (PAGES / "rust-front-end.openmetrics.txt").read_bytes()
        for end in range(len(body) - 1):
            assert refusal(body[:end], content_type=OPENMETRICS).kind in ("cut", "empty")

    def test_a_histogram_without_its_end_is_still_read(self) -> None:
        page = parse_page(b'# TYPE x histogram\nx_bucket{le="1.0"} 1\n')
        assert page.samples == (("x_bucket", (("le", "1.0"),), 1.0),)

    def test_terminal_codes_do_not_reach_the_sentence(self) -> None:
        assert "\x1b" not in str(refusal(b"\x1b[31mred\x1b[0m alarm\n"))  # refusal() wants it printable
        assert len(str(refusal(b"x" * 100_000 + b"\n"))) < 250

    def test_work_for_the_library_is_bounded(self) -> None:
        # prometheus-client needs minutes for this line: 500,000 escaped quotes
        line = b'x{a="' + b'\\"' * 500_000 + b'"} 1\n'
        assert refusal(line).kind == "too_many"
        plain = b'x{a="' + b"v" * 1_000_000 + b'"} 1\n'
        assert parse_page(plain).samples_read == 1

    def test_lines_are_bounded(self) -> None:
        assert parse_page(b"\n" * 999_999 + b"x 1\n").samples_read == 1
        error = refusal(b"\n" * 1_000_000 + b"x 1\n")
        assert (error.kind, str(error)) == ("too_many", "The page has more than 1,000,000 lines.")


class TestWanted:
    BODY = (PAGES / "vllm-0.32.0.prom").read_bytes()

    def test_keeps_what_is_wanted_and_counts_everything(self) -> None:
        everything = parse_page(self.BODY)
        page = parse_page(self.BODY, wanted=lambda name: name.startswith("vllm:request_prefill_time_seconds"))
        assert page.samples == tuple(
            s for s in everything.samples if s.name.startswith("vllm:request_prefill_time_seconds")
        )
        assert len(page.samples) == 25  # grep -c of that prefix
        assert (page.samples_read, page.names_read) == (everything.samples_read, everything.names_read)
        assert set(page.kinds) == {
            "vllm:request_prefill_time_seconds",
            "vllm:request_prefill_time_seconds_created",
        }
        assert set(page.helps) == set(page.kinds)

    def test_a_family_of_openmetrics_is_found_by_its_stem(self) -> None:
        body = (PAGES / "rust-front-end.openmetrics.txt").read_bytes()
        page = parse_page(body, wanted=lambda name: name == "vllm:prompt_tokens_total")
        assert page.kinds == {"vllm:prompt_tokens": "counter"}

    def test_is_asked_once_per_name(self) -> None:
        asked: list[str] = []
        page = parse_page(self.BODY, wanted=lambda name: bool(asked.append(name)))
        assert sorted(asked) == sorted(page.names_read)
        assert page.samples == ()

    def test_unusual_lines_are_filtered_by_their_real_name(self) -> None:
        body = b'{"my.metric",a="b"} 1\n{"other.metric"} 2\nx{a="\\n"} 3\ny{a="\\n"} 4\ny{a="\\\\"} 5\n'
        page = parse_page(body, wanted=lambda name: name in ("my.metric", "y"))
        assert [(s.name, s.value) for s in page.samples] == [("my.metric", 1.0), ("y", 4.0), ("y", 5.0)]
        assert page.names_read == {"my.metric", "other.metric", "x", "y"}

    def test_only_the_first_line_of_an_unwanted_name_is_checked(self) -> None:
        body = b"x 1\nx one\ny 2\n"
        assert refusal(body).kind == "not_exposition"
        assert parse_page(body, wanted=lambda name: name == "y").samples == (("y", (), 2.0),)
        assert refusal(b"x one\ny 2\n", wanted=lambda name: name == "y").kind == "not_exposition"

    def test_a_hundred_thousand_unknown_families(self) -> None:
        junk = "".join(f"# HELP f{i} text\n# TYPE f{i} gauge\nf{i} {i}\n" for i in range(100_000))
        page = parse_page(junk.encode() + b"x 1\n", wanted=lambda name: name == "x")
        assert page.samples == (("x", (), 1.0),)
        assert (page.samples_read, len(page.names_read)) == (100_001, 100_001)
        assert page.kinds == page.helps == {}


class TestStricterAndLaxer:
    """Where we decide otherwise than prometheus-client, and what it does."""

    @pytest.mark.parametrize(
        "text",
        [
            'x{a="b"} 1 y{a="b"} 2\n',  # two lines ran together: it drops y
            "x 1 2 3\n",  # it skips the middle
            "inf\n",  # it reads "in inf"
            'x-y{a="b"} 1\n',  # it takes any name before a brace
            "x 1",  # no newline at the end: may be cut
            "x 1\nx 2\n",  # it gives both
            "x 1\n# EOF\ny 1\n",  # a comment to it
            "# only a comment\n",
        ],
    )
    def test_stricter(self, text: str) -> None:
        assert not library_refuses(read_classic, text)
        refusal(text.encode())

    def test_laxer_on_comments(self) -> None:
        text = "#! TYPE of thing\nx 1\n"
        assert library_refuses(read_classic, text)
        assert parse_page(text.encode()).samples_read == 1

    @pytest.mark.parametrize(
        "text",
        [
            "# TYPE x counter\nx_total -1\n",
            "# TYPE x counter\nx_total NaN\n",
            '# TYPE x histogram\nx_bucket{le="1.0"} 1\n',
            "# TYPE x gauge\nx 1\n# TYPE y gauge\ny 2\n# TYPE x gauge\n",
            "x 1\n\ny 2\n",
            '# TYPE x gauge\nx 1 # {a="b"} 2\n',
            "x  1\n",
            "# TYPE x untyped\nx 1\n",
            "# a comment\nx 1\n",
        ],
    )
    def test_laxer_on_the_rules_of_openmetrics(self, text: str) -> None:
        body = text + "# EOF\n"
        assert library_refuses(read_openmetrics, body)
        assert parse_page(body.encode(), content_type=OPENMETRICS).samples_read >= 1


class TestReadBody:
    def test_plain_bytes_pass(self) -> None:
        assert read_body(b"x 1\n") == b"x 1\n"
        assert read_body(b"") == b""

    def test_gzip_is_told_by_its_first_bytes(self) -> None:
        assert read_body(gzip.compress(b"x 1\n")) == b"x 1\n"
        assert read_body(gzip.compress(b"x 1\n") + gzip.compress(b"y 2\n")) == b"x 1\ny 2\n"

    def test_a_bomb_is_refused_without_being_unpacked(self) -> None:
        bomb = gzip.compress(b"\n" * 2**24) * 40  # 640 MiB
        tracemalloc.start()
        try:
            with pytest.raises(PageError, match="64 MiB") as caught:
                read_body(bomb)
            assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
        finally:
            tracemalloc.stop()
        assert caught.value.kind == "too_many"

    def test_the_cap_holds_for_plain_bytes_and_is_exact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bodies, "LARGEST_PAGE_BYTES", 10)
        for pack in (bytes, gzip.compress):
            assert len(read_body(pack(b"x" * 10))) == 10
            with pytest.raises(PageError):
                read_body(pack(b"x" * 11))

    def test_damaged_gzip(self) -> None:
        packed = gzip.compress(b"x 1\n" * 1000)
        for end in range(2, len(packed)):
            with pytest.raises(PageError) as caught:
                read_body(packed[:end])
            assert caught.value.kind == "cut"
        flipped = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
        with pytest.raises(PageError, match="damaged") as caught:
            read_body(flipped)
        assert caught.value.kind == "not_exposition"


# ------------------------------------------------------------------- generated and mutated pages

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
LABEL_VALUES = st.one_of(
    st.sampled_from(["", "1", "1.0", "+Inf", "}", "{", '"', "\\", "\n", "\\n", ",", '",', '="', "} 1", " # {"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
NUMBERS = st.one_of(
    st.sampled_from(["0", "0.0", "-0.0", "1e+06", "NaN", "+Inf", "-Inf", "1.7577953215e+09", "1e400"]),
    st.floats().map(repr),
    st.integers().map(str),
)


@st.composite
def lines(draw: st.DrawFn) -> tuple[tuple[str, Labels], str, str]:
    """Series, text of the number, and one way to write them on a line."""
    name = draw(NAMES)
    labels = draw(st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4))
    number = draw(NUMBERS)
    pick = draw(st.randoms(use_true_random=False))
    escaped = [
        f'{key}="' + text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'
        for key, text in labels.items()
    ]
    if pick.random() < 0.7:
        head = name + ("{" + ",".join(escaped) + "}" if escaped else "")
        line = f"{head} {number}"
    elif pick.random() < 0.3:
        line = "{" + ", ".join([f'"{name}"', *escaped]) + "} " + number
    else:
        inner = pick.choice([",", ", ", " ,"]).join(escaped) + pick.choice(["", " ", ","] if escaped else [""])
        line = pick.choice(["", " "]) + name + "{" + inner + "}" + pick.choice([" ", "  ", "\t"]) + number
    if pick.random() < 0.2:
        line += " 1700000000000"
    if pick.random() < 0.1:
        line += ' # {trace_id="a} \\" b"} 0.5'
    return (name, tuple(sorted(labels.items()))), number, line + pick.choice(["", "", "\r", " "])


@given(st.lists(lines(), min_size=1, max_size=8, unique_by=lambda line: line[0]))
def test_generated_pages(page: list[tuple[tuple[str, Labels], str, str]]) -> None:
    text = "".join(line + "\n" for _, _, line in page)
    expected = {series: repr(float(number) + 0.0) for series, number, _ in page}
    assert read_with_library(text) == expected
    got = parse_page(text.encode())
    assert values_of(got) == expected
    assert got.samples_read == len(page)
    name = page[0][0][0]
    some = parse_page(text.encode(), wanted=lambda candidate: candidate == name)
    assert values_of(some) == {series: number for series, number in expected.items() if series[0] == name}


SNIPPETS = [
    *(
        '"',
        "\\",
        "{",
        "}",
        ",",
        "=",
        " ",
        "\t",
        "#",
        " # ",
        "\n",
        "\r\n",
        "a",
        "1",
        ".",
        "e",
        "_",
        "-",
        ":",
        "<",
    ),
    *(
        "NaN",
        "inf",
        "# TYPE ",
        "# HELP ",
        "\x00",
        "\x1b[31m",
        "é",
        "\u2028",
        "\xa0",
        "__name__",
        'a="b",',
        '"} ',
    ),
    *("# {", '\\"', '{"', "0x1", "[", "{}", "# EOF\n"),
]


def mutate(text: str, pick: random.Random) -> str:
    for _ in range(pick.randint(0, 4)):
        at, how = pick.randrange(len(text) + 1), pick.random()
        end = at + (0 if how < 0.5 else pick.randint(1, 4))
        text = text[:at] + (pick.choice(SNIPPETS) if how < 0.75 else "") + text[end:]
    return text


def is_refused_on_purpose(text: str) -> bool:
    """Whether one of our stricter rules refuses this page, told in another way than the code tells it."""
    if not text.endswith("\n") or re.match(r'\s*(<|\[|\{\s*("[^"]*"\s*:|\}))', text) or "\n# EOF\n" in text:
        return True
    body = [line for line in text.split("\n") if line.strip() and not line.strip().startswith("#")]
    for line in body:
        bare = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        head, brace, rest = bare.partition("{")
        tail = rest.partition("}")[2] if brace else bare
        words = re.split(r"\s#", tail)[0].split()
        if not brace and len(words) > 1:
            head, words = words[0], words[1:]
        if not 1 <= len(words) <= 2 or not re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*", head.lstrip(), re.A):
            return True
        if len(words) == 2 and words[1].startswith("#"):
            return True
    metadata = [line for line in text.split("\n") if re.match(r"\s*#\s+(TYPE|HELP)", line)]
    return not body or any(not line.isascii() for line in metadata)  # it takes a wide space for a space


def test_mutated_pages() -> None:
    """6,000 pages of one to six lines, fixed seed: nothing is read or refused otherwise."""
    sources = ["vllm-0.32.0.prom", "sglang-0.5.23.prom", "llamacpp-11434.prom", *["unusual-forms.prom"] * 2]
    stock = [(PAGES / name).read_text().split("\n")[:-1] for name in sources]
    pick = random.Random(20)
    seen = {"same": 0, "both refuse": 0, "we refuse": 0}
    for _ in range(6_000):
        text = mutate("".join(pick.choice(pick.choice(stock)) + "\n" for _ in range(pick.randint(1, 6))), pick)
        try:
            theirs: Values | None = read_with_library(text)
        except (ValueError, IndexError):
            theirs = None
        try:
            ours: Values | None = values_of(parse_page(text.encode()))
        except PageError:
            ours = None
        if theirs is None and ours is not None:
            assert re.search(r"^\s*#\S+\s+(TYPE|HELP)", text, re.MULTILINE), text  # see test_laxer_on_comments
        elif theirs is not None and ours is None:
            assert is_refused_on_purpose(text), text
            seen["we refuse"] += 1
        else:
            assert ours == theirs, text
            seen["same" if ours else "both refuse"] += 1
    assert min(seen.values()) > 300, seen


def test_the_big_page_reads_the_same() -> None:
    """Fourteen engines of the page that the benchmark times with 560."""
    body = make_big_page(engines=14)
    page = parse_page(body)
    assert values_of(page) == read_with_library(body.decode())
    assert {dict(s.labels).get("engine") for s in page.samples} == {None, *map(str, range(14))}
    assert 14 * 340 < page.samples_read < 14 * 340 + 100
