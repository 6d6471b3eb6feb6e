"""Ten slides for each lab, made from its handout and instructor's guide, as Markdown and PDF.

Run `python docs/site/slides.py out/slides --course "Security 2026"`. Lecturers change the Markdown
as they like, and print it with `--only out/slides/lab07.md`.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import mimetypes
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab

SLIDES: Final = 10
"""Slides of a lab."""

WORDS: Final = 80
"""Words of running text on a slide without a list; it always has one whole sentence."""

WORDS_WITH_LIST: Final = 40
"""The same above a list or a table."""

POINTS: Final = 5
"""Points of a list on a slide."""

POINT_WORDS: Final = 26
"""Words of a point; it always has one whole sentence."""

DENSE: Final = 105
"""A slide with more words gets smaller letters."""

BREAK: Final = "\n\n---\n\n"

CSS: Final = """
@page { size: 254mm 143mm; margin: 0 }
body { margin: 0; font: 16pt/1.4 "DejaVu Sans", Verdana, sans-serif; color: #1f2933 }
section { box-sizing: border-box; position: relative; width: 254mm; height: 142.5mm;
          padding: 12mm 16mm 14mm; overflow: hidden; break-after: page }
section:last-child { break-after: auto }
section.dense, section.dense table { font-size: 12pt } section.dense td { padding: 0.5mm 3mm }
h1 { font-size: 32pt; margin: 8mm 0 5mm; color: #2a6f97 }
h2 { font-size: 23pt; margin: 0 0 6mm; color: #2a6f97 }
ul, ol { margin: 0; padding-left: 8mm } li { margin-bottom: 2.5mm } p { margin: 0 0 4mm }
code { font: 0.86em "DejaVu Sans Mono", monospace; background: #eef3f6; padding: 0 1mm }
h2 code { background: none; padding: 0 } pre { background: #eef3f6; padding: 3mm; font-size: 13pt }
img { display: block; margin: 0 auto; max-width: 222mm; max-height: 82mm }
em { font-size: 0.85em; color: #52606d }
table { border-collapse: collapse; font-size: 14pt } td, th { padding: 1mm 4mm; text-align: left }
footer { position: absolute; left: 16mm; right: 16mm; bottom: 5mm; font-size: 9pt; color: #6b7280;
         display: flex; justify-content: space-between }
"""


def deck(lab: Lab) -> str:
    """The ten slides of a lab as Markdown, separated by horizontal rules."""
    handout = lab.file("handout.md").read_text(encoding="utf-8")
    steps = [_step(heading, body) for heading, body in _sections(handout) if _letter(heading)]
    first = [_title(lab, handout)]
    last = [_mistakes(lab), _explanations(lab)]
    pictures = [_picture(lab, handout)]
    background = [_background(handout)]
    graded = [_points_table(lab)]
    spare = SLIDES - len(steps) - len(first) - len(last) - len(pictures) - 1
    middle = [*(background if spare > 0 else []), *pictures, _predictions(lab)]
    end = [*(graded if spare > 1 else []), *last]
    return BREAK.join([*first, *middle, *steps, *end]) + "\n"


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """The headings of the second level, each with the text below it."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), body.strip("\n")


def _letter(heading: str) -> str:
    """The letter of a step in which students write or run something; "" for other sections."""
    match = re.match(r"(?:Step )?([B-F])[.:]", heading)
    return match[1] if match else ""


def _title(lab: Lab, handout: str) -> str:
    opening = handout.partition("\n## ")[0]
    body = re.sub(r"^(# .*|\*Level .*)$", "", opening, flags=re.MULTILINE)
    facts = f"Level {lab.level}, {lab.minutes} minutes"
    return f"# Lab {lab.number}: {lab.title}\n\n*{facts}*\n\n{_summary(body)}"


def _background(handout: str) -> str:
    body = dict(_sections(handout))["Background"]
    return f"## Background\n\n{_summary(body.partition(chr(10) + '### ')[0])}"


def _picture(lab: Lab, handout: str) -> str:
    match = re.search(r"!\[([^\]]*)\]\(([^)]*)\)", handout)
    if match is None:
        raise ValueError(f"the handout of lab {lab.number} has no picture")
    caption = " ".join(match[1].split())
    return f"## The picture\n\n![{caption}]({match[2]})\n\n*{caption}*"


def _predictions(lab: Lab) -> str:
    texts = [prediction.question for prediction in lab.predictions]
    questions = "\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1))
    return f"## Predict first\n\n{questions}"


def _step(heading: str, body: str) -> str:
    letter = _letter(heading)
    title = re.sub(r"^(?:Step )?[B-F][.:]\s*|\s*\([^()]*\)$", "", heading)
    return f"## {letter}: {title}\n\n{_summary(body)}"


def _points_table(lab: Lab) -> str:
    rows = "\n".join(f"| `{check.name}` | {check.points} | {check.title} |" for check in lab.checks)
    return f"## What is graded\n\n| check | points | what it asks |\n|---|---|---|\n{rows}"


def _mistakes(lab: Lab) -> str:
    sections = dict(_sections(lab.file("instructor.md").read_text(encoding="utf-8")))
    body = sections["Common mistakes"]
    rows = re.findall(r"^\| (?!symptom)([^|-][^|]*) \| ([^|]*) \|$", body, flags=re.MULTILINE)
    listed = "\n".join(f"* {what}: {why}" for what, why in rows) or body
    return f"## What often goes wrong\n\n{_points(listed)}"


def _explanations(lab: Lab) -> str:
    questions = "\n".join(f"{at}. {text}" for at, text in enumerate(lab.explanations, 1))
    return f"## Explain, with your own numbers\n\n{questions}"


def _summary(body: str) -> str:
    """The running text, and the first list or, without one, the first table."""
    listed = _points(body) or _table(body)
    text = _text(body, WORDS_WITH_LIST if listed else WORDS)
    return f"{_signature(body)}{text}\n\n{listed}".strip()


def _signature(body: str) -> str:
    """The signature of a function in a handout's code, if the heading does not contain it."""
    match = re.search(r"^    (\w+\([^)]*\) -> .*)$", body, flags=re.MULTILINE)
    return f"`{match[1]}`\n\n" if match else ""


def _table(body: str) -> str:
    match = re.search(r"(?:^\|.*\n?)+", body, flags=re.MULTILINE)
    return match[0] if match else ""


def _text(body: str, most: int) -> str:
    """The first sentences of the running text, at most `most` characters."""
    paragraphs = [
        " ".join(paragraph.split())
        for paragraph in re.split(r"\n\s*\n", body)
        if paragraph.strip()
        and not re.match(r"    |\*(?!\*)|\d+\. |[|!>#]", paragraph.lstrip("\n"))
    ]
    return _shorten(" ".join(paragraphs), most)


def _points(body: str) -> str:
    """The first points of the first list, each cut to its first sentences."""
    items = re.findall(
        r"^(?:\*|\d+\.) +(.*(?:\n(?!\s*$|\*|\d+\. |\||#).*)*)", body, flags=re.MULTILINE
    )
    cut = (_shorten(" ".join(item.split()), POINT_WORDS) for item in items[:POINTS])
    return "\n".join(f"* {text}" for text in cut)


def _shorten(text: str, most: int) -> str:
    """The first sentence, and further ones as long as they fit."""
    sentences = re.split(r"(?<=[.?!:])\s+(?=[A-Z`*(])", text)
    chosen = sentences[:1]
    for sentence in sentences[1:]:
        if len(" ".join([*chosen, sentence]).split()) > most:
            break
        chosen.append(sentence)
    return " ".join(chosen)


def page(markdown: str, folder: Path, foot: Sequence[str]) -> str:
    """Slides as one HTML page, with the pictures of a folder embedded."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    slides = re.split(r"\n---\n", markdown.strip())
    sections = []
    for at, slide in enumerate(slides, 1):
        html = re.sub(
            r'src="([^":]+)"',
            lambda match: f'src="{_data_address(folder / match[1])}"',
            parser.render(slide),
        )
        cells = "".join(
            f"<span>{escape(part)}</span>" for part in (*foot, f"{at} of {len(slides)}")
        )
        dense = ' class="dense"' if len(slide.split()) > DENSE else ""
        sections.append(f"<section{dense}>{html}<footer>{cells}</footer></section>")
    title = escape(" ".join(foot))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{CSS}</style><body>{''.join(sections)}</body></html>"
    )


def _data_address(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0] or "image/svg+xml"
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def write_deck(lab: Lab, out: Path) -> Path:
    """Write a lab's Markdown with its pictures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    names = {}
    for picture in lab.pictures():
        names[picture.name] = f"lab{lab.number:02}-{picture.name}"
        (out / names[picture.name]).write_bytes(picture.read_bytes())
    text = deck(lab)
    for name, own_name in names.items():
        text = text.replace(f"]({name})", f"]({own_name})")
    file = out / f"lab{lab.number:02}.md"
    file.write_text(text, encoding="utf-8")
    return file


def print_decks(files: Sequence[Path], chromium: str, course: str, date: str) -> Iterator[Path]:
    """Print each Markdown file to a PDF next to it, and yield the PDF's path."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root cannot have Chromium's sandbox
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for file in files:
            text = file.read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("# ")
            sheet = browser.new_page(color_scheme="light")
            foot = [part for part in (course, title, date) if part]
            sheet.set_content(page(text, file.parent, foot), wait_until="networkidle")
            pdf = file.with_suffix(".pdf")
            sheet.pdf(path=pdf, prefer_css_page_size=True, print_background=True)
            sheet.close()
            yield pdf
        browser.close()


def main() -> None:
    """Write and print the decks, and name the files that were written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", help="Folder of the slides.")
    parser.add_argument("--only", type=Path, help="Print this Markdown file, and write no others.")
    parser.add_argument("--course", default="", help="Name of the course.")
    parser.add_argument("--date", default="", help="Date of the slides; default: today.")
    options = parser.parse_args()
    if (options.out is None) == (options.only is None):
        parser.error("name the folder of the slides, or one file with --only")
    program = shutil.which("chromium")
    if program is None:
        sys.exit("slides are printed by Chromium, which is not here: apt-get install chromium")
    date = options.date or dt.datetime.now(dt.UTC).date().isoformat()
    files = [options.only] if options.only else [write_deck(lab, options.out) for lab in all_labs()]
    for pdf in print_decks(files, program, options.course, date):
        sys.stdout.write(f"{pdf}\n")


if __name__ == "__main__":
    main()
