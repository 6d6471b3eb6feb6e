"""A round that runs, drawn: devices arriving, then the batch on its way through the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import shown
from shuffledp_ops.console.frame import Viewer, moment, short, until
from shuffledp_ops.console.model import Announced, Round

_ACCEPTING: Final = "accepting"
_MIXING: Final = "mixing"
_RELAYING: Final = "relaying"
_BEHIND: Final = {"decoding": "analyst counts", "certifying": "accountant certifies"}
"""What comes behind the last node: stages of the analyst, and who does them."""

_WAITING, _WORKING, _OVER = "waiting", "working", "done"


def card(viewer: Viewer, one: Round) -> str:
    """The round in a box, with a link to its page and, for who operates, what can be done."""
    head = f'<h3><a href="/rounds/{one.round_id}/">Round {short(one.round_id)}</a></h3>'
    asked = (
        f'<p class="fine">{shown(one.mechanism)} of “{shown(one.population)}”, opened '
        f"{moment(one.opened_at)}</p>"
    )
    return f'<article class="card">{head}{asked}{"".join(parts(viewer, one))}</article>'


def parts(viewer: Viewer, one: Round) -> Iterator[str]:
    """The progress itself: who has answered, the way of the batch, the buttons."""
    yield from _arrivals(one)
    yield f'<ol class="chain" aria-label="The way of the messages">{"".join(_chain(one))}</ol>'
    if viewer.operates:
        actions = {"abort": ("Give the round up", " danger")}
        if one.announced is not None and not _closed(one):
            actions = {"end": ("End submissions now", ""), **actions}
        buttons = (
            f'<a class="button{kind}" id="{name}-{one.round_id}" '
            f'href="/rounds/{one.round_id}/{name}">{words}</a>'
            for name, (words, kind) in actions.items()
        )
        yield f'<p class="buttons">{" ".join(buttons)}</p>'


def _closed(one: Round) -> bool:
    accepting = one.step(_ACCEPTING)
    return accepting is not None and accepting.over


def _arrivals(one: Round) -> Iterator[str]:
    known = one.announced
    if known is None:
        yield '<p class="fine">The parties prepare their keys; devices are not asked yet.</p>'
        return
    missing = known.min_reports - one.accepted
    enough = f"{missing:,} more are needed" if missing > 0 else "enough for an answer"
    closes = (
        "submissions are closed"
        if _closed(one)
        else f"open until {until(known.closes_at)}, or until {known.max_reports:,} have answered"
    )
    yield (
        f'<p class="arrived"><strong>{one.accepted:,}</strong> of at least {known.min_reports:,} '
        f"devices: {enough}; "
        f"{closes}.</p>"
    )
    yield _bar(one.accepted, known)


def _bar(accepted: int, known: Announced) -> str:
    """Accepted reports on the way to the most that are taken, with a mark at the fewest."""
    share = 1000 * min(accepted / known.max_reports, 1.0)
    mark = 1000 * known.min_reports / known.max_reports
    label = f"{accepted:,} devices, {known.min_reports:,} needed, {known.max_reports:,} at most"
    least = f'<path class="least" d="M{min(mark, 998):.1f} 0V24"/>'
    return (
        f'<svg class="bar-of" role="img" viewBox="0 0 1000 24" preserveAspectRatio="none" '
        f'aria-label="{label}">'
        f'<rect class="track" width="1000" height="24"/><rect class="fill" width="{share:.1f}" '
        f'height="24"/>{least}'
        f'</svg><p class="fine scale"><span>needed, at the mark: {known.min_reports:,}</span>'
        f"<span>at most: {known.max_reports:,}</span></p>"
    )


def _chain(one: Round) -> Iterator[str]:
    accepting = one.step(_ACCEPTING)
    state = _WAITING if accepting is None else _OVER if accepting.over else _WORKING
    yield _link("devices", state, f"{one.accepted:,} answered" if accepting else "not asked yet")
    for name in _route(one):
        yield _link(name, *_node(one, name))
    for stage, words in _BEHIND.items():
        step = one.step(stage)
        yield _link(
            words,
            _WAITING if step is None else _OVER if step.over else _WORKING,
            _seconds(step.seconds if step else 0.0),
        )


def _route(one: Round) -> list[str]:
    if one.announced is not None:
        return list(one.announced.plan.route)
    return sorted({node for _, node in one.steps if node})


def _node(one: Round, name: str) -> tuple[str, str]:
    mixing, relaying = one.step(_MIXING, name), one.step(_RELAYING, name)
    if relaying is not None and relaying.over:
        mixed = mixing.seconds if mixing else 0.0
        return _OVER, _seconds(mixed + relaying.seconds)
    for step, words in ((relaying, "passes on"), (mixing, "mixes")):
        if step is not None:
            share = f" {step.done / step.total:.0%}" if step.total else ""
            return _WORKING, f"{words}{share}"
    return _WAITING, ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds else ""


def _link(name: str, state: str, words: str) -> str:
    said = words or {_WAITING: "waits", _WORKING: "works"}.get(state, "")
    return (
        f'<li class="{state}"><span class="sign" '
        f'aria-hidden="true"></span><strong>{shown(name)}</strong>'
        f'<span class="hidden">, {state}: </span><span class="said">{shown(said)}</span></li>'
    )
