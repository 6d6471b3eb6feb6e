"""The first page: what runs, what people still have to give, the newest answer, and all rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import shown
from shuffledp_ops.console import budgets, progress
from shuffledp_ops.console.frame import Viewer, framed, live, mishap, moment, row, short, table
from shuffledp_ops.console.model import (
    FAILED,
    PUBLISHED,
    RUNNING,
    UNREADABLE,
    Opened,
    Round,
    Snapshot,
)
from shuffledp_ops.rounds import page

_MOST_FAILURES: Final = 3
"""Failed rounds that are explained at once: those since the last answer, the newest first."""

_WORDS: Final = {
    RUNNING: "running",
    PUBLISHED: "published",
    FAILED: "failed",
    UNREADABLE: "cannot be read",
}


def overview(viewer: Viewer, snapshot: Snapshot) -> str:
    """The whole page."""
    heading = "Deployment" if viewer.live else "Rounds in"
    parts = [
        f"<h1>{heading} “{shown(viewer.title)}”</h1>",
        live("troubles", _troubles(snapshot)),
        live("running", _running(viewer, snapshot)),
    ]
    if viewer.live:
        parts.append(live("budgets", budgets.section(snapshot)))
    parts += [live("newest", _newest(snapshot.newest)), live("rounds", _rounds(viewer, snapshot))]
    return framed(viewer, "Rounds", parts)


def _troubles(snapshot: Snapshot) -> Iterator[str]:
    for trouble in snapshot.troubles:
        what = shown(trouble.what)
        heading = f"<p><strong>No answer from {what}.</strong> What was known last is below.</p>"
        yield mishap(trouble.error, trouble.words, heading)
    ended = [one for one in snapshot.rounds if not one.running]
    since = next((place for place, one in enumerate(ended) if one.outcome == PUBLISHED), len(ended))
    for one in ended[:since][:_MOST_FAILURES]:
        if one.ending is not None:
            link = f'<a href="/rounds/{one.round_id}/">{short(one.round_id)}</a>'
            heading = f"<p><strong>Round {link} failed</strong>, {moment(one.opened_at)}.</p>"
            yield mishap(one.error, one.ending.reason, heading)


def _running(viewer: Viewer, snapshot: Snapshot) -> Iterator[str]:
    running = [one for one in snapshot.rounds if one.running]
    if not viewer.live:
        return
    yield "<section><h2>Running now</h2>"
    if not snapshot.at:
        yield '<p class="fine">Asking the analyst …</p>'
    elif not running:
        words = (
            '<a href="/open">Open a round</a>.'
            if viewer.operates
            else "<code>shuffledp round</code> opens one."
        )
        yield f'<p class="fine">No round is open. {words}</p>'
    for one in running:
        yield progress.card(viewer, one)
    yield "</section>"


def _newest(newest: Opened | None) -> Iterator[str]:
    if newest is None:
        return
    report = newest.report
    yield (
        f'<div class="newest"><h2>Newest answer: <a href="/rounds/{report.round_id}/">'
        f"{shown(page.title(report))}</a></h2>"
    )
    yield from page.answer(report)
    more = "What it guarantees, all numbers, and how to check them"
    yield f'<p><a href="/rounds/{report.round_id}/">{more}</a></p></div>'


def _rounds(viewer: Viewer, snapshot: Snapshot) -> Iterator[str]:
    yield "<section><h2>All rounds</h2>"
    if not snapshot.rounds:
        yield f'<p class="fine">{"None yet." if snapshot.at else "Reading …"}</p></section>'
        return
    heads = ("round", "when", "people", "mechanism", "outcome", "reports", "ε")
    yield table(heads, (_row(one) for one in snapshot.rounds))
    if snapshot.more:
        where = (
            "<code>shuffledp results list</code> has them all"
            if viewer.live
            else "the folder has more"
        )
        yield f'<p class="fine">Only the newest {len(snapshot.rounds):,}; {where}.</p>'
    yield "</section>"


def _row(one: Round) -> str:
    final = one.ending.final if one.ending is not None else None
    bound = (
        ""
        if final is None
        else ("none" if final.epsilon.certified is None else f"{final.epsilon.certified:.4g}")
    )
    kind = one.outcome if one.outcome in _WORDS else UNREADABLE
    why = f' <span class="why">{shown(one.error)}</span>' if one.error else ""
    return row(
        {
            "round": f'<a href="/rounds/{one.round_id}/"><code>{short(one.round_id)}</code></a>',
            "when": moment(one.opened_at),
            "people": shown(one.population),
            "mechanism": shown(one.mechanism),
            "outcome": f'<span class="outcome {kind}">{_WORDS[kind]}</span>{why}',
            "reports": f"{one.accepted:,}" if one.accepted else "",
            "ε": bound,
        }
    )
