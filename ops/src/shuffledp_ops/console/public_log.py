"""The public log in the console: its newest verified size, and a round's entry. docs/log.md."""

from __future__ import annotations

from collections.abc import Iterator

from shuffledp.log_proofs import LogPosition
from shuffledp.pages import as_html
from shuffledp_ops.console.frame import mishap, moment, short
from shuffledp_ops.console.model import ConsoleSnapshot, RoundInfo


def section(snapshot: ConsoleSnapshot) -> Iterator[str]:
    """The section of the first page on the log, as the newest verified proof shows it."""
    newest = next((entry for entry in snapshot.rounds if entry.logged is not None), None)
    if newest is None or newest.logged is None:
        return
    name = short(newest.round_id)
    link = f'<a href="/rounds/{newest.round_id}/">{name}</a>'
    yield f"<section><h2>Public log</h2><p>As the announcement of round {link} proves it:</p>"
    yield from _position(newest.logged)
    yield "</section>"


def of_round(round_info: RoundInfo) -> Iterator[str]:
    """Describe a round's log entry, or why devices refuse the round; empty without witnesses."""
    if round_info.log_error is not None:
        error, words = round_info.log_error
        yield mishap(
            error,
            words,
            "<p><strong>Devices that require the public log refuse this round.</strong></p>",
        )
    elif round_info.logged is not None:
        yield "<section><h2>Public log</h2>"
        yield f"<p>The promise is entry {round_info.logged.entry:,}.</p>"
        yield from _position(round_info.logged)
        yield "</section>"


def _position(logged: LogPosition) -> Iterator[str]:
    signed = [f"{as_html(name)}, {moment(at)}" for name, at in logged.cosigned_at]
    rows = {
        "log": as_html(logged.origin),
        "entries": f"{logged.size:,}",
        "root": f"<code>{as_html(logged.root)}</code>",
        "signed by": "; ".join(signed),
        "not by": as_html(", ".join(logged.unsigned)),
        "needed": f"{logged.threshold:,} of {len(signed) + len(logged.unsigned):,} witnesses",
    }
    yield "<dl>"
    yield from (f"<dt>{name}</dt><dd>{words}</dd>" for name, words in rows.items() if words)
    yield "</dl>"
