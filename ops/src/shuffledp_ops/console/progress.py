"""The progress of a running round: submissions, then the batch on its way through the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import as_html
from shuffledp_ops.console.frame import Viewer, moment, short, until
from shuffledp_ops.console.model import RoundAnnouncement, RoundInfo

_ACCEPTING: Final = "accepting"
_MIXING: Final = "mixing"
_RELAYING: Final = "relaying"
_BEHIND: Final = {"decoding": "analyst counts", "certifying": "accountant certifies"}
"""Stages of the analyst after the last node, with their labels."""

_WAITING, _WORKING, _OVER = "waiting", "working", "done"


def card(viewer: Viewer, round_info: RoundInfo) -> str:
    """A running round in a box, with a link to its page and, for operators, buttons."""
    head = (
        f'<h3><a href="/rounds/{round_info.round_id}/">Round {short(round_info.round_id)}</a></h3>'
    )
    population = as_html(round_info.population)
    opening = (
        f'<p class="fine">{as_html(round_info.mechanism)} of “{population}”, opened '
        f"{moment(round_info.opened_at)}</p>"
    )
    return f'<article class="card">{head}{opening}{"".join(parts(viewer, round_info))}</article>'


def parts(viewer: Viewer, round_info: RoundInfo) -> Iterator[str]:
    """The parts that change: number of reports, progress of the batch, and buttons."""
    yield from _arrivals(round_info)
    links = "".join(_chain(round_info))
    yield f'<ol class="chain" aria-label="Route of the messages">{links}</ol>'
    if viewer.operates:
        actions = {"abort": ("Cancel round", " danger")}
        if round_info.announced is not None and not _is_closed(round_info):
            actions = {"end": ("Close submissions now", ""), **actions}
        buttons = (
            f'<a class="button{kind}" id="{name}-{round_info.round_id}" '
            f'href="/rounds/{round_info.round_id}/{name}">{words}</a>'
            for name, (words, kind) in actions.items()
        )
        yield f'<p class="buttons">{" ".join(buttons)}</p>'


def _is_closed(round_info: RoundInfo) -> bool:
    accepting = round_info.step(_ACCEPTING)
    return accepting is not None and accepting.over


def _arrivals(round_info: RoundInfo) -> Iterator[str]:
    announced = round_info.announced
    if announced is None:
        yield '<p class="fine">The parties are preparing their keys.</p>'
        return
    missing = announced.min_reports - round_info.accepted
    enough = f"{missing:,} more are needed" if missing > 0 else "enough for an answer"
    closes = (
        "submissions are closed"
        if _is_closed(round_info)
        else f"open until {until(announced.closes_at)} or {announced.max_reports:,} reports"
    )
    yield (
        f'<p class="arrived"><strong>{round_info.accepted:,}</strong> of at least '
        f"{announced.min_reports:,} devices: {enough}; {closes}.</p>"
    )
    yield _bar(round_info.accepted, announced)


def _bar(accepted: int, announced: RoundAnnouncement) -> str:
    """A bar: accepted reports as a share of the maximum, with a mark at the minimum."""
    least, most = announced.min_reports, announced.max_reports
    share = 1000 * min(accepted / most, 1.0)
    mark = 1000 * least / most
    label = f"{accepted:,} devices, {least:,} needed, {most:,} at most"
    minimum = f'<path class="least" d="M{min(mark, 998):.1f} 0V24"/>'
    return (
        f'<svg class="bar-of" role="img" viewBox="0 0 1000 24" preserveAspectRatio="none" '
        f'aria-label="{label}">'
        f'<rect class="track" width="1000" height="24"/><rect class="fill" width="{share:.1f}" '
        f'height="24"/>{minimum}'
        f'</svg><p class="fine scale"><span>needed (mark): {least:,}</span>'
        f"<span>at most: {most:,}</span></p>"
    )


def _chain(round_info: RoundInfo) -> Iterator[str]:
    accepting = round_info.step(_ACCEPTING)
    state = _WAITING if accepting is None else _OVER if accepting.over else _WORKING
    yield _link(
        "devices", state, f"{round_info.accepted:,} answered" if accepting else "not open yet"
    )
    for name in _route(round_info):
        yield _link(name, *_node(round_info, name))
    for stage, words in _BEHIND.items():
        step = round_info.step(stage)
        yield _link(
            words,
            _WAITING if step is None else _OVER if step.over else _WORKING,
            _seconds(step.seconds if step else 0.0),
        )


def _route(round_info: RoundInfo) -> list[str]:
    if round_info.announced is not None:
        return list(round_info.announced.plan.route)
    return sorted({node for _, node in round_info.steps if node})


def _node(round_info: RoundInfo, name: str) -> tuple[str, str]:
    mixing = round_info.step(_MIXING, name)
    relaying = round_info.step(_RELAYING, name)
    if relaying is not None and relaying.over:
        mixed = mixing.seconds if mixing else 0.0
        return _OVER, _seconds(mixed + relaying.seconds)
    for step, words in ((relaying, "relaying"), (mixing, "mixing")):
        if step is not None:
            share = f" {step.done / step.total:.0%}" if step.total else ""
            return _WORKING, f"{words}{share}"
    return _WAITING, ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds else ""


def _link(name: str, state: str, words: str) -> str:
    details = words or {_WAITING: "waiting", _WORKING: "working"}.get(state, "")
    return (
        f'<li class="{state}"><span class="sign" '
        f'aria-hidden="true"></span><strong>{as_html(name)}</strong>'
        f'<span class="hidden">, {state}: </span><span class="said">{as_html(details)}</span></li>'
    )
