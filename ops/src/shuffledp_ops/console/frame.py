"""The frame of every page of the console, and the small pieces that pages share.

Pure HTML, every text escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from shuffledp.pages import as_html
from shuffledp_ops.console.advice import advice
from shuffledp_ops.rounds.page import style


@dataclass(frozen=True)
class Viewer:
    """The viewer of a page; one who `operates` sees the buttons.

    `version` is the version of the snapshot that the page shows.
    """

    title: str
    live: bool
    version: str
    operates: bool = False


def frame_page(viewer: Viewer, title: str, body: Iterable[str], *, follows: bool = True) -> str:
    """A whole page.

    If it `follows`, the script keeps its parts with `data-live` up to date.
    """
    operates = '<span class="badge">operator</span>' if viewer.operates else ""
    opens = '<a href="/open">Open a round</a>' if viewer.operates else ""
    kind = "deployment" if viewer.live else "saved rounds"
    follow = f' data-version="{as_html(viewer.version)}"' if follows else ""
    still = (
        '<noscript><p class="fine">Without JavaScript this page stands still: '
        '<a href="">load it again</a> to see what is new.</p></noscript>'
    )
    return _PAGE.format(
        title=f"{as_html(title)} · {as_html(viewer.title)}",
        follow=follow,
        name=as_html(viewer.title),
        kind=kind,
        operates=operates,
        opens=opens,
        still=still if follows else "",
        body="\n".join(body),
    )


_PAGE = """<!DOCTYPE html>
<html lang="en"{follow}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/console.svg" type="image/svg+xml">
<link rel="stylesheet" href="/console.css">
<script src="/console.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="home" href="/"><strong>shuffledp</strong> <span>{kind} {name}</span></a>
<nav aria-label="Console">{opens}{operates}<span id="state" role="status"></span></nav></header>
<main id="main">
{still}
{body}
</main>
</body>
</html>
"""


def stylesheet() -> str:
    """The style sheet: the shared rules, those of a round's report, and the console's own."""
    return (
        files("shuffledp").joinpath("data", "page.css").read_text(encoding="utf-8")
        + style()
        + asset("console.css")
    )


def asset(name: str) -> str:
    """Read a static file of the console."""
    return files("shuffledp_ops.console").joinpath("files", name).read_text(encoding="utf-8")


def live(name: str, parts: Iterable[str]) -> str:
    """Wrap a part of a page that the script replaces whenever it changes."""
    return f'<div id="{name}" data-live>{"".join(parts)}</div>'


def _when(milliseconds: int) -> datetime:
    """Convert to a datetime, clamped to the calendar's range: other parties may send any number."""
    return datetime.fromtimestamp(min(max(milliseconds, 0), 2**47) / 1000, UTC)


def moment(milliseconds: int) -> str:
    """Format a time in UTC, to the minute."""
    when = _when(milliseconds)
    return f'<time datetime="{when:%Y-%m-%dT%H:%M:%SZ}">{when:%Y-%m-%d %H:%M} UTC</time>'


def until(milliseconds: int) -> str:
    """Format a future time; the script adds the remaining time."""
    when = _when(milliseconds)
    return (
        f'<time datetime="{when:%Y-%m-%dT%H:%M:%SZ}" data-until="{milliseconds}">{when:%H:%M} '
        f"UTC</time>"
    )


def short(round_id: str) -> str:
    """The first characters of a round's id, enough to tell rounds apart."""
    return as_html(round_id[:8])


def epsilon(value: float) -> str:
    """Format an ε to four digits; infinity as "no finite bound"."""
    return "no finite bound" if value == float("inf") else f"{value:.4g}"


def mishap(error: str, words: str, heading: str = "") -> str:
    """An error in a box: its name, its message, its meaning and the remedy."""
    guidance = advice(error)
    return (
        f'<div class="note mishap">{heading}<p><code>{as_html(error)}</code> {as_html(words)}</p>'
        f"<p>{as_html(guidance.happened)}</p><p><strong>What to do:</strong> "
        f"{_commands(guidance.do)}</p></div>"
    )


def _commands(words: str) -> str:
    """Turn backquoted words in our own sentences into code elements."""
    parts = as_html(words).split("`")
    return "".join(
        f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)
    )


def table(heads: Iterable[str], rows: Iterable[str]) -> str:
    """An HTML table that becomes a list of boxes on a telephone; `row` makes its rows."""
    cells = "".join(f'<th scope="col">{as_html(head)}</th>' for head in heads)
    return (
        f"<table "
        f'class="rounds"><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def row(cells: Mapping[str, str]) -> str:
    """A table row from HTML by column; the first cell is its heading."""
    tags = ["th scope=row", *["td"] * (len(cells) - 1)]
    named = zip(tags, cells.items(), strict=True)
    return (
        "<tr>"
        + "".join(f'<{tag} data-name="{head}">{cell}</{tag[:2]}>' for tag, (head, cell) in named)
        + "</tr>"
    )
