"""Sphinx configuration of docs/: `make docs`, warnings as errors, nothing from the network."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

sys.path.insert(
    0, str(Path(__file__).parent)
)  # for `generated`, which fills in what the code itself knows

project = "shuffledp"
author = copyright = "the shuffledp contributors"  # noqa: A001 - Sphinx's own name
version = release = version_of("shuffledp")

extensions = ["myst_parser", "sphinx.ext.autodoc", "generated"]
exclude_patterns = ["site"]
highlight_language = "none"  # most boxes are shell, formulas or what a program printed

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 4
"""Headings down to this level can be linked to as on a forge: page.md#words-of-the-heading."""

smartquotes_action = "qe"  # quotes and ellipses only: `--view` must not become an en dash

default_role = "code"  # docstrings write `name` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False

html_math_renderer = "svg"  # see formulas.py
html_theme = "furo"
html_title = "shuffledp"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

_FONTS: Final = {
    "font-stack": "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif",
    "font-stack--monospace": "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
}
_LIGHT: Final = {"color-brand-primary": "#1b5e84", "color-brand-content": "#1b5e84"}
_DARK: Final = {"color-brand-primary": "#7cbde0", "color-brand-content": "#7cbde0"}
html_theme_options = {
    "light_css_variables": _FONTS | _LIGHT,
    "dark_css_variables": _FONTS | _DARK,
    "navigation_with_keys": True,
}
