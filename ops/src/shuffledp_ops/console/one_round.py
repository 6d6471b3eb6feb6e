"""The page of one round: its progress while it runs, its report when it is published, else why
there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import shown
from shuffledp_core.documents.models import Certificate
from shuffledp_ops.console import budgets, progress
from shuffledp_ops.console.frame import Viewer, framed, live, mishap, moment, short
from shuffledp_ops.console.model import Charge, Opened, Round
from shuffledp_ops.rounds import page, wording
from shuffledp_ops.rounds.present import describe_parameters
from shuffledp_ops.rounds.report import show

_WHERE: Final = "In a folder with result.json, roster.json and root.pub, saved from the list below"


def running(viewer: Viewer, one: Round) -> str:
    """A round that runs: where it is, and what its plan guarantees."""
    head = f"<h1>Round {short(one.round_id)}</h1>"
    asked = f'<p class="fine">Opened {moment(one.opened_at)}; <code>{one.round_id}</code></p>'
    plan = () if one.announced is None else _plan(one.announced.plan)
    body = [head, asked, live("progress", progress.parts(viewer, one)), live("plan", plan)]
    return framed(viewer, f"Round {one.round_id[:8]}", body)


def _plan(plan: Certificate) -> Iterator[str]:
    """The certificate that was signed before anybody was asked, in plain words."""
    unit = " per unit of distance" if plan.adjacency == "metric" else ""
    yield '<section><h2>What devices were promised</h2><div class="promise">'
    yield f"<p>{shown(wording.promise(plan))}</p>"
    yield f"<p>{shown(wording.promise_without_nodes(plan))}</p></div><dl>"
    rows = {
        "asked of": f"“{plan.population}”",
        "mechanism": f"{plan.mechanism.kind}, {describe_parameters(plan)}",
        "ε certified": f"{show(plan.epsilon.certified)}{unit}, at δ = {plan.delta:g}",
        "ε_L": f"{show(plan.corrupted.epsilon)}{unit}: left when every node is corrupt",
    }
    yield from (f"<dt>{name}</dt><dd>{shown(words)}</dd>" for name, words in rows.items())
    yield "</dl><h3>Who has to be honest</h3><ul>"
    yield from (f"<li>{shown(words)}</li>" for words in wording.honest(plan))
    yield "</ul></section>"


def published(viewer: Viewer, opened: Opened) -> str:
    """A published round: the parts of `report.html`, made of verified documents."""
    report = opened.report
    return framed(
        viewer, page.title(report), page.body(report, opened.files, _WHERE), follows=False
    )


def failed(viewer: Viewer, one: Round, charge: Charge | None) -> str:
    """A round that ended without an answer: why, what to do, and what has become of its budget."""
    ending = one.ending
    reason = ending.reason if ending is not None else "Its signed result is being fetched."
    cost = f"<p>{shown(budgets.of_round(charge))}</p>" if viewer.live else ""
    body = [
        f"<h1>Round {short(one.round_id)}: no answer</h1>",
        f'<p class="fine">Opened {moment(one.opened_at)}; <code>{shown(one.round_id)}</code></p>',
        live("why", [mishap(one.error or "RoundFailed", reason), cost]),
    ]
    return framed(viewer, f"Round {one.round_id[:8]}", body)


def refused(viewer: Viewer, heading: str, error: str, words: str) -> str:
    """An error in place of a page."""
    back = '<p><a href="/">Back to all rounds</a></p>'
    return framed(
        viewer, heading, [f"<h1>{shown(heading)}</h1>", mishap(error, words), back], follows=False
    )
