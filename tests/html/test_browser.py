"""The page in a real browser: nothing fetched, nothing on the console, readable at both widths and in both schemes."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.outputs import html
from auditor.outputs.text import RenderOptions
from tests.conftest import need_program

pytestmark = pytest.mark.live

FOLDER = Path(__file__).parents[2] / "fixtures" / "reports" / "schema-1"
NAMES = ("nightly-22", "nightly-22-compared", "nightly-09", "audit-pair", "audit-series", "gate", "step")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SMALLEST_CONTRAST = 4.5


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium without a window, with a profile of its own that is thrown away."""
    program = need_program("chromium", "chromium-browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    out = {}
    for name in NAMES:
        path = folder / f"{name}.html"
        path.write_text(html.render(json.loads((FOLDER / f"{name}.json").read_text()), RenderOptions()))
        out[name] = path
    return out


class Opened:
    """A page that was opened, with all it said and asked for."""

    def __init__(self, browser: Any, path: Path, *, width: int = 1400, scheme: str = "light", **more: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("name", NAMES)
def test_opens_quietly_and_fits(browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    with Opened(browser, pages[name], width=width, scheme=scheme) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert opened.said == []
        assert opened.asked == [pages[name].as_uri()]
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        smallest = opened.page.evaluate(
            """() => Math.min(99, ...[...document.querySelectorAll('svg text')].map(
                 t => parseFloat(t.getAttribute('font-size')) * t.ownerSVGElement.getScreenCTM().a))"""
        )
        assert smallest >= 9, "text in pictures is too small to read"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["nightly-22", "audit-series", "gate"])
def test_an_accessibility_checker_finds_nothing_serious(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Opened(browser, pages[name], scheme=scheme, bypass_csp=True) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        found = Axe().run(opened.page).response["violations"]
    serious = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_text_stand_out_in_both_schemes(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    """Contrast by WCAG's formula, of every colour of text and line in pictures against the card they lie on."""
    with Opened(browser, pages["nightly-22"], scheme=scheme) as opened:
        values = opened.page.evaluate(
            """() => { const s = getComputedStyle(document.documentElement);
                 const names = 'card paper ink muted c1 c2 c3 c4 bad yes no open link'.split(' ');
                 return Object.fromEntries(names.map(n => [n, s.getPropertyValue('--' + n).trim()])); }"""
        )
    for ground in ("card", "paper"):
        for name in set(values) - {"card", "paper"}:
            assert contrast(values[name], values[ground]) >= SMALLEST_CONTRAST, (scheme, name, ground)


def contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_schemes_differ(browser: Any, pages: dict[str, Path]) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with Opened(browser, pages["audit-pair"], scheme=scheme) as opened:
            grounds.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]


def test_a_subject_prints_on_two_pages(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads((FOLDER / "nightly-22.json").read_text())
    document["subjects"] = document["subjects"][:1]
    document["nights"]["subjects"] = document["nights"]["subjects"][:1]
    path = tmp_path / "one.html"
    path.write_text(html.render(document, RenderOptions()))
    for page in (path, pages["audit-pair"], pages["audit-series"]):
        with Opened(browser, page) as opened:
            printed = opened.page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) in (1, 2), page.name


def test_the_policy_holds(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """The same page with a script, a style and an image put in: the browser refuses all three."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    image = f"http://127.0.0.1:{listener.getsockname()[1]}/x.png"
    bad = f'<script>document.title = "ran"</script><p id="p" style="color: red">x</p><img src="{image}">'
    path = tmp_path / "bad.html"
    path.write_text(pages["audit-pair"].read_text().replace("<main>", f"<main>{bad}"))
    with listener, Opened(browser, path) as opened:
        assert opened.page.title() != "ran"
        assert opened.page.evaluate("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
        assert len(opened.said) == 3
        with pytest.raises(TimeoutError):
            listener.accept()
