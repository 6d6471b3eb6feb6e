"""The page of one round: its progress, then its report or the reason of its failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import as_html
from shuffledp_core.documents.models import Certificate
from shuffledp_ops.console import budgets, progress, public_log
from shuffledp_ops.console.frame import Viewer, frame_page, live, mishap, moment, short
from shuffledp_ops.console.model import BudgetCharge, PublishedRound, RoundInfo
from shuffledp_ops.rounds import page, wording
from shuffledp_ops.rounds.present import describe_parameters
from shuffledp_ops.rounds.report import show

_WHERE: Final = "In a folder with result.json, roster.json and root.pub, saved from the list below"


def running_page(viewer: Viewer, round_info: RoundInfo) -> str:
    """The page of a running round: its progress, and the guarantee of its plan."""
    head = f"<h1>Round {short(round_info.round_id)}</h1>"
    opening = _opening(round_info)
    plan = () if round_info.announced is None else _plan(round_info.announced.plan)
    body = [
        head,
        opening,
        live("progress", progress.parts(viewer, round_info)),
        live("plan", plan),
        live("log", public_log.of_round(round_info)),
    ]
    return frame_page(viewer, f"Round {round_info.round_id[:8]}", body)


def _opening(round_info: RoundInfo) -> str:
    opened = moment(round_info.opened_at)
    return f'<p class="fine">Opened {opened}; <code>{as_html(round_info.round_id)}</code></p>'


def _plan(plan: Certificate) -> Iterator[str]:
    """The guarantee of the plan certificate, in plain words."""
    unit = " per unit of distance" if plan.adjacency == "metric" else ""
    yield '<section><h2>What devices were promised</h2><div class="promise">'
    yield f"<p>{as_html(wording.promise(plan))}</p>"
    yield f"<p>{as_html(wording.promise_without_nodes(plan))}</p></div><dl>"
    rows = {
        "population": f"“{plan.population}”",
        "mechanism": f"{plan.mechanism.kind}, {describe_parameters(plan)}",
        "ε certified": f"{show(plan.epsilon.certified)}{unit}, at δ = {plan.delta:g}",
        "ε_L": f"{show(plan.corrupted.epsilon)}{unit}: remains if every node is corrupt",
    }
    yield from (f"<dt>{name}</dt><dd>{as_html(words)}</dd>" for name, words in rows.items())
    yield "</dl><h3>Trust assumptions</h3><ul>"
    yield from (f"<li>{as_html(words)}</li>" for words in wording.honest(plan))
    yield "</ul></section>"


def published_page(viewer: Viewer, opened: PublishedRound) -> str:
    """The page of a published round: the parts of `report.html`, from verified documents."""
    report = opened.report
    return frame_page(
        viewer, page.title(report), page.body(report, opened.files, _WHERE), follows=False
    )


def failed_page(viewer: Viewer, round_info: RoundInfo, charge: BudgetCharge | None) -> str:
    """The page of a failed round: the reason, what to do, and the state of its charge."""
    ending = round_info.ending
    reason = ending.reason if ending is not None else "Its signed result is being fetched."
    cost = f"<p>{as_html(budgets.of_round(charge))}</p>" if viewer.live else ""
    body = [
        f"<h1>Round {short(round_info.round_id)}: no answer</h1>",
        _opening(round_info),
        live("why", [mishap(round_info.error or "RoundFailed", reason), cost]),
    ]
    return frame_page(viewer, f"Round {round_info.round_id[:8]}", body)


def refused_page(viewer: Viewer, heading: str, error: str, words: str) -> str:
    """The page that explains an error."""
    back = '<p><a href="/">Back to all rounds</a></p>'
    return frame_page(
        viewer,
        heading,
        [f"<h1>{as_html(heading)}</h1>", mishap(error, words), back],
        follows=False,
    )
