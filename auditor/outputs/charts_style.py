"""What all pictures share: a small figure, the palette, and SVG that a strict page may hold.

Pictures are drawn with one colour a role. In a page each becomes a class, so that light and dark are the page's choice
and no element carries a style of its own; in a PNG each becomes its light colour.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from auditor.outputs.text import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Palette:
    """One colour a role, as matplotlib takes it."""

    ink: str
    muted: str
    grid: str
    paper: str
    c1: str
    c2: str
    c3: str
    c4: str
    band: str
    bad: str

    @property
    def lines(self) -> tuple[str, ...]:
        return self.c1, self.c2, self.c3, self.c4


ROLES = tuple(field.name for field in fields(Palette))
MARKS = Palette(*(f"#{i:06x}" for i in range(1, len(ROLES) + 1)))
"""No colours for eyes: each is found again in the SVG and becomes a class."""
LIGHT = Palette(
    ink="#1a1f26", muted="#55606e", grid="#d5dae1", paper="#ffffff", c1="#1f5fa8", c2="#b4530a", c3="#2f7d4f",
    c4="#7a4a9c", band="#cfe0f3", bad="#b3261e",
)  # fmt: skip
"""On white: every line and text has a contrast of at least 4.5, the band is a ground."""
_ROLE_OF = {getattr(MARKS, role): role for role in ROLES}
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
"""Lines differ by dash as well as by colour."""
WIDTH_INCHES = 3.6
FONT_POINTS = 8.5
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
_KEPT = frozenset(
    {"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset", "opacity", "fill-opacity",
     "stroke-opacity", "stroke-linecap", "stroke-linejoin", "text-anchor", "font-weight"}
)  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)px")


@contextmanager
def figure(height_inches: float, p: Palette, *, width_inches: float = WIDTH_INCHES) -> Iterator[Figure]:
    """A figure in our style; nothing of matplotlib's global state is used or left."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "premise-auditor",
        "font.size": FONT_POINTS,
        "font.family": "DejaVu Sans",
        "text.parse_math": False,
        "text.color": p.ink,
        "axes.labelcolor": p.ink,
        "axes.edgecolor": p.muted,
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": FONT_POINTS,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "grid.color": p.grid,
        "grid.linewidth": 0.6,
        "xtick.color": p.muted,
        "ytick.color": p.muted,
        "xtick.labelcolor": p.ink,
        "ytick.labelcolor": p.ink,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "legend.frameon": False,
        "legend.fontsize": FONT_POINTS - 0.5,
        "figure.facecolor": "none",
        "lines.linewidth": 1.4,
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # A label in a script that the font lacks is drawn by the browser all the same.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield Figure(figsize=(width_inches, height_inches), layout="constrained")


def plain(text: object, longest: int = 28) -> str:
    """A label fit for a picture."""
    return safe(text, longest)


def compact(axes: Axes, *, y_ticks: int = 4) -> None:
    """Few ticks, no grid across the values' axis twice."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=y_ticks, min_n_ticks=2))
    axes.grid(axis="x", visible=False)


def to_svg(fig: Figure, *, name: str, title: str) -> str:
    """Inline SVG: no style attributes, colours as classes, ids unique on the page, a title for screen readers."""
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    _strip(root)
    for element in root.iter():
        _tidy(element, name)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("class", "chart")
    root.set("aria-labelledby", f"{name}-title")
    label = ElementTree.Element(f"{{{SVG}}}title", {"id": f"{name}-title"})
    label.text = title
    root.insert(0, label)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: ElementTree.Element) -> None:
    for child in list(element):
        if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
            element.remove(child)
        else:
            _strip(child)


def _tidy(element: ElementTree.Element, name: str) -> None:
    """Style properties become attributes, our colours classes, ids get the picture's name."""
    style = element.attrib.pop("style", "")
    classes = []
    given = {k: v for k, v in element.attrib.items() if k in ("fill", "stroke")}
    for key in given:
        del element.attrib[key]
    properties = {**given, **dict(_properties(style))}
    for key, value in properties.items():
        role = _ROLE_OF.get(value.lower())
        if key in ("fill", "stroke") and role:
            classes.append(f"{key[0]}-{role}")
        elif key in ("font", "font-size"):
            size = _SIZE.search(value)
            if size:
                element.set("font-size", size[1])
        elif key in _KEPT:
            element.set(key, _prefix(value, name))
    if classes:
        element.set("class", " ".join(classes))
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    link = element.attrib.pop(f"{{{XLINK}}}href", None)
    if link:
        element.set("href", f"#{name}-{link[1:]}" if link.startswith("#") else "")
    if "clip-path" in element.attrib:
        element.set("clip-path", _prefix(element.attrib["clip-path"], name))


def _properties(style: str) -> Iterator[tuple[str, str]]:
    for declaration in style.split(";"):
        key, colon, value = declaration.partition(":")
        if colon:
            yield key.strip(), value.strip()


def _prefix(value: str, name: str) -> str:
    return value.replace("url(#", f"url(#{name}-")
