"""The first page: running rounds, remaining budgets, the newest answer, and all rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import as_html
from shuffledp_ops.console import budgets, progress, public_log
from shuffledp_ops.console.frame import Viewer, frame_page, live, mishap, moment, row, short, table
from shuffledp_ops.console.model import (
    FAILED,
    PUBLISHED,
    RUNNING,
    UNREADABLE,
    ConsoleSnapshot,
    PublishedRound,
    RoundInfo,
)
from shuffledp_ops.rounds import page

_MOST_FAILURES: Final = 3
"""Failed rounds that are explained at once: those since the last answer, the newest first."""

_LOG_ENTRY: Final = "log entry"

_WORDS: Final = {
    RUNNING: "running",
    PUBLISHED: "published",
    FAILED: "failed",
    UNREADABLE: "cannot be read",
}


def overview(viewer: Viewer, snapshot: ConsoleSnapshot) -> str:
    """The whole page."""
    heading = "Deployment" if viewer.live else "Rounds in"
    parts = [
        f"<h1>{heading} “{as_html(viewer.title)}”</h1>",
        live("troubles", _troubles(snapshot)),
        live("running", _running(viewer, snapshot)),
    ]
    if viewer.live:
        parts.append(live("budgets", budgets.section(snapshot)))
    parts += [live("newest", _newest(snapshot.newest)), live("rounds", _rounds(viewer, snapshot))]
    if viewer.live:
        parts.append(live("log", public_log.section(snapshot)))
    return frame_page(viewer, "Rounds", parts)


def _troubles(snapshot: ConsoleSnapshot) -> Iterator[str]:
    for trouble in snapshot.troubles:
        what = as_html(trouble.what)
        heading = f"<p><strong>No answer from {what}.</strong> What was known last is below.</p>"
        yield mishap(trouble.error, trouble.words, heading)
    ended = [round_info for round_info in snapshot.rounds if not round_info.running]
    since = next(
        (index for index, round_info in enumerate(ended) if round_info.outcome == PUBLISHED),
        len(ended),
    )
    for round_info in ended[:since][:_MOST_FAILURES]:
        if round_info.ending is not None:
            link = f'<a href="/rounds/{round_info.round_id}/">{short(round_info.round_id)}</a>'
            heading = (
                f"<p><strong>Round {link} failed</strong>, {moment(round_info.opened_at)}.</p>"
            )
            yield mishap(round_info.error, round_info.ending.reason, heading)


def _running(viewer: Viewer, snapshot: ConsoleSnapshot) -> Iterator[str]:
    running = [round_info for round_info in snapshot.rounds if round_info.running]
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
    for round_info in running:
        yield progress.card(viewer, round_info)
        if round_info.log_error is not None:
            yield from public_log.of_round(round_info)
    yield "</section>"


def _newest(newest: PublishedRound | None) -> Iterator[str]:
    if newest is None:
        return
    report = newest.report
    yield (
        f'<div class="newest"><h2>Newest answer: <a href="/rounds/{report.round_id}/">'
        f"{as_html(page.title(report))}</a></h2>"
    )
    yield from page.answer(report)
    more = "What it guarantees, all numbers, and how to check them"
    yield f'<p><a href="/rounds/{report.round_id}/">{more}</a></p></div>'


def _rounds(viewer: Viewer, snapshot: ConsoleSnapshot) -> Iterator[str]:
    yield "<section><h2>All rounds</h2>"
    if not snapshot.rounds:
        yield f'<p class="fine">{"None yet." if snapshot.at else "Reading …"}</p></section>'
        return
    heads = ["round", "when", "people", "question", "mechanism", "outcome", "reports", "ε"]
    has_log = any(round_info.logged is not None for round_info in snapshot.rounds)
    heads += [_LOG_ENTRY] if has_log else []
    yield table(heads, (_row(round_info, has_log=has_log) for round_info in snapshot.rounds))
    if snapshot.more:
        where = (
            "<code>shuffledp results list</code> has them all"
            if viewer.live
            else "the folder has more"
        )
        yield f'<p class="fine">Only the newest {len(snapshot.rounds):,}; {where}.</p>'
    yield "</section>"


def _row(round_info: RoundInfo, *, has_log: bool) -> str:
    kind = round_info.outcome if round_info.outcome in _WORDS else UNREADABLE
    why = f' <span class="why">{as_html(round_info.error)}</span>' if round_info.error else ""
    name = f"<code>{short(round_info.round_id)}</code>"
    logged = round_info.logged
    entry = {_LOG_ENTRY: "" if logged is None else f"{logged.entry:,}"} if has_log else {}
    return row(
        {
            "round": f'<a href="/rounds/{round_info.round_id}/">{name}</a>',
            "when": moment(round_info.opened_at),
            "people": as_html(round_info.population),
            "question": as_html(round_info.question_id),
            "mechanism": as_html(round_info.mechanism),
            "outcome": f'<span class="outcome {kind}">{_WORDS[kind]}</span>{why}',
            "reports": f"{round_info.accepted:,}" if round_info.accepted else "",
            "ε": _epsilon(round_info),
            **entry,
        }
    )


def _epsilon(round_info: RoundInfo) -> str:
    """The ε that holds for a published round: certified, or ε_L if every node is corrupt."""
    final = round_info.ending.final if round_info.ending is not None else None
    if final is None or round_info.all_corrupt is None:
        return ""
    if round_info.all_corrupt:
        remains = final.corrupted.epsilon
        value = "no guarantee" if remains is None else f"ε_L = {remains:.4g}"
        return f'{value} <span class="why">all nodes corrupt</span>'
    certified = final.epsilon.certified
    return "none" if certified is None else f"{certified:.4g}"
