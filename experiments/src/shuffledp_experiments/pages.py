"""The registry in words: the index page of a run, and the table of docs/experiments.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from shuffledp_experiments.entry import Experiment
from shuffledp_experiments.registry import PARTS, experiments, part_entries
from shuffledp_experiments.running import ENDINGS, FinishedExperiment

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { margin: 2.5rem 0; break-inside: avoid; }
img { max-width: 100%; background: white; }
ul { padding-left: 1.2rem; } li { margin: .2rem 0; }
.verdict { font-weight: 600; } .quiet { opacity: .75; font-size: .9em; }
"""


def write_index(done: Sequence[FinishedExperiment], out: Path) -> Path:
    """Write out/index.html: every experiment that ran, with its plot and its verdicts."""
    by_id = {experiment.id: experiment for experiment in done}
    parts = "\n".join(
        f"<h2>{escape(title)}</h2>\n"
        + "\n".join(
            _article(entry, by_id[entry.id]) for entry in part_entries(part) if entry.id in by_id
        )
        for part, title in PARTS.items()
        if any(entry.id in by_id for entry in part_entries(part))
    )
    page = out / "index.html"
    page.write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<title>Published against '
        "true</title>\n"
        f"<style>{_STYLE}</style>\n<h1>Published against true</h1>\n"
        "<p>Certified is never below the truth, attained never above it.</p>\n"
        f"{parts}\n</html>\n"
    )
    return page


def _article(entry: Experiment, done: FinishedExperiment) -> str:
    if done.missing:
        body = f"<p>Did not run: {escape(done.missing)}</p>"
    else:
        links = " ".join(
            f'<a href="{entry.id}.{ending}">{ending.upper()}</a>' for ending in ENDINGS
        )
        items = "".join(f"<li>{_claim(claim.line())}</li>" for claim in done.claims)
        items += "".join(f"<li>{escape(note)}</li>" for note in done.notes)
        body = (
            f'<img src="{entry.id}.png" alt="{escape(entry.question)}" '
            f'loading="lazy">\n<ul>{items}</ul>\n'
            f'<p class="quiet">{links} · {done.seconds:.1f} s of CPU</p>'
        )
    return (
        f'<article id="{entry.id}"><h3>{entry.id} · {escape(entry.source)}</h3>\n'
        f"<p>{escape(entry.question)}</p>\n{body}</article>"
    )


def _claim(line: str) -> str:
    *numbers, verdict = line.split(" | ")
    return " | ".join([*map(escape, numbers), f'<span class="verdict">{escape(verdict)}</span>'])


def registry_table() -> str:
    """All experiments as Markdown for the documentation, in one table for each paper."""
    return "\n\n".join(
        f"## {title}\n\n{_table(part_entries(part))}" for part, title in PARTS.items()
    )


def _table(entries: Sequence[Experiment]) -> str:
    rows = [
        f"| `{entry.id}` | {entry.source} | {entry.question} | {parameters(entry.parameters)} | "
        f"{', '.join(sorted(entry.verdicts))} | {entry.seconds:g} |"
        for entry in entries
    ]
    return "\n".join(
        [
            "| id | where | question | parameters | verdicts | s |",
            "|---|---|---|---|---|---|",
            *rows,
        ]
    )


def parameters(values: Mapping[str, object]) -> str:
    """Format parameters as a reader writes them: n = 100, ε = 0.1 .. 0.4."""
    return ", ".join(f"{name} = {_short(value)}" for name, value in values.items())


def _short(value: object) -> str:
    if isinstance(value, tuple | list | range):
        items = [_short(item) for item in value]
        return ", ".join(items) if len(items) <= 4 else f"{items[0]}, {items[1]} .. {items[-1]}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def list_entries() -> list[tuple[str, str, str, str, float]]:
    """Id with aliases, source, question, verdicts and seconds of each experiment, for `--list`."""
    return [
        (
            " = ".join((entry.id, *entry.aliases)),
            entry.source,
            entry.question,
            ", ".join(sorted(entry.verdicts)),
            entry.seconds,
        )
        for entry in experiments().values()
    ]
