"""Formulas on the pages: TeX is drawn as SVG by matplotlib at build time.

A page writes `$$...$$` in lines of its own and `$...$` within a line, as forges render them. The
SVG has the colour and size of the text, and needs no fonts, scripts or network.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any, Final

import matplotlib as mpl
from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.writers.html5 import HTML5Translator

RENDERER: Final = "svg"
"""Name of this renderer, for Sphinx's `html_math_renderer`."""

_POINTS: Final = 12.0
"""Size of the font while drawing; the lengths of the SVG are stated in multiples of it."""

_TEXT: Final = "#010203"
"""Placeholder colour that becomes the colour of the page's text."""

_STYLE: Final[dict[Any, Any]] = {"mathtext.fontset": "stix", "savefig.transparent": True}

_SVG: Final = re.compile(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


def draw_formula(formula: str) -> str:
    """One line of TeX as an SVG element aligned with the text's baseline.

    Raises:
        SphinxError: matplotlib's mathtext does not know a command of the formula.
    """
    file = io.BytesIO()
    try:
        with mpl.rc_context(_STYLE):
            depth = math_to_image(
                f"${formula}$", file, FontProperties(size=_POINTS), format="svg", color=_TEXT
            )
    except ValueError as error:
        raise SphinxError(f"mathtext cannot draw {formula!r}; use simpler TeX: {error}") from error
    drawn = file.getvalue().decode()
    drawn = drawn[drawn.index("<svg") :].replace(_TEXT, "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|\s+(?=<)", "", drawn, flags=re.DOTALL)
    size = _SVG.match(drawn)
    if size is None:
        raise SphinxError(f"matplotlib gave no size for {formula!r}")
    width, height = size.groups()
    head = (
        f'<svg class="formula" role="img" aria-label="{escape(formula)}" '
        f'viewBox="0 0 {width} {height}" style="width: {float(width) / _POINTS:.3f}em; '
        f'vertical-align: {-depth / _POINTS:.3f}em">'
    )
    return head + drawn[size.end() :]


def _visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(draw_formula(node.astext()))
    raise nodes.SkipNode


def _visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    lines = [line for line in node.astext().split("\\\\") if line.strip()]
    # A line of the source may end anywhere; mathtext takes one line only.
    drawn = "<br>".join(
        draw_formula(" ".join(line.replace("\\frac", "\\dfrac").split())) for line in lines
    )
    translator.body.append(f'<p class="formula">{drawn}</p>')
    raise nodes.SkipNode


def register(app: Sphinx) -> None:
    """Add the renderer to Sphinx."""
    app.add_html_math_renderer(
        RENDERER, inline_renderers=(_visit_inline, None), block_renderers=(_visit_block, None)
    )
