"""Budgets of populations: spent, left, and their history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp.pages import as_html
from shuffledp_ops.console.frame import Viewer, epsilon, frame_page, live, moment, row, short, table
from shuffledp_ops.console.model import BudgetCharge, ConsoleSnapshot, PopulationBudget
from shuffledp_ops.rounds import charts

_LIMITS: Final = 1000.0
"""A budget ε above this limits nothing, and is not drawn."""

_MOST_ROWS: Final = 100

_STATES: Final = {
    "reserved": "reserved: the round runs, or ended without the nodes' word that nothing left them",
    "settled": "settled: spent, for an answer was published or may have been seen",
    "released": "released: given back, for every node signed that nothing left it",
}

_COMPOSED: Final = {
    "adaptive": "Later questions may depend on earlier answers: a privacy filter keeps the "
    "account.",
    "fixed": "True only if all rounds were fixed in advance: they are composed as such.",
}


def section(snapshot: ConsoleSnapshot) -> Iterator[str]:
    """The section of the first page with a meter for each population's budget."""
    if not snapshot.budgets:
        return
    yield '<section><h2>Privacy budgets</h2><div class="budgets">'
    for budget in snapshot.budgets:
        name = as_html(budget.population)
        yield f'<article class="card"><h3><a href="/populations/{name}/">“{name}”</a></h3>'
        yield from _state(budget)
        yield "</article>"
    yield "</div></section>"


def page(viewer: Viewer, snapshot: ConsoleSnapshot, budget: PopulationBudget) -> str:
    """The page of one population: the account over time, and the newest charges."""
    body = [
        f"<h1>Privacy budget of “{as_html(budget.population)}”</h1>",
        live("account", _state(budget)),
        live("time", _over_time(snapshot, budget)),
        live("charges", _charges(snapshot, budget)),
    ]
    return frame_page(viewer, f"Budget of {budget.population}", body)


def _state(budget: PopulationBudget) -> Iterator[str]:
    at = f"at δ = {budget.delta:g}"
    if budget.limit > _LIMITS:
        limit = f"The limit, {budget.limit:.3g}, limits nothing in practice."
        yield f"<p><strong>ε = {epsilon(budget.spent)}</strong> spent {at}. {limit}</p>"
    else:
        yield _meter(budget)
        yield (
            f"<p><strong>ε = {epsilon(budget.spent)}</strong> of {budget.limit:g} spent {at}. "
            f"{_remaining(budget)}</p>"
        )
    words = _COMPOSED.get(budget.composition, "")
    number = sum(budget.counts.values())
    yield f'<p class="fine">{number:,} {"charge" if number == 1 else "charges"}. {words}</p>'


def _remaining(budget: PopulationBudget) -> str:
    if budget.left <= 0:
        return (
            "<strong>Nothing is left:</strong> the accountant refuses every further round of "
            "these people."
        )
    return (
        f"Left is <strong>ε = {budget.left:.4g}</strong>; as rounds compose to less than their "
        "sum, a little more may fit. A round that does not fit is refused before anybody is "
        "asked, and costs nothing."
    )


def _meter(budget: PopulationBudget) -> str:
    share = 1000 * min(max(budget.spent / budget.limit, 0.0), 1.0) if budget.limit > 0 else 1000.0
    label = f"ε = {epsilon(budget.spent)} of {budget.limit:g} spent"
    return (
        f'<svg class="bar-of" role="img" viewBox="0 0 1000 24" preserveAspectRatio="none" '
        f'aria-label="{label}">'
        f'<rect class="track" width="1000" height="24"/><rect class="fill" width="{share:.1f}" '
        f'height="24"/></svg>'
    )


def _over_time(snapshot: ConsoleSnapshot, budget: PopulationBudget) -> Iterator[str]:
    points = _points(snapshot, budget)
    if not points:
        return
    yield "<section><h2>Over time</h2><figure>"
    limit = budget.limit if budget.limit <= _LIMITS else None
    yield charts.spending(
        charts.SpendingCurve(points, limit), f"ε that “{budget.population}” has spent, over time"
    )
    yield (
        '<figcaption class="fine">ε spent in all, as the accountant signed it in the certificate '
        "of each published "
        "round, and last as it says now.</figcaption></figure></section>"
    )


def _points(snapshot: ConsoleSnapshot, budget: PopulationBudget) -> list[tuple[int, float]]:
    """Pairs (time of a final certificate, ε spent by then) in order of time, up to now.

    None without a finite bound.
    """
    finals = [
        round_info.ending.final
        for round_info in snapshot.rounds
        if round_info.ending is not None and round_info.ending.final is not None
    ]
    mine = sorted(
        (final for final in finals if final.population == budget.population),
        key=lambda round_info: round_info.issued_at,
    )
    points = [
        (final.issued_at, final.ledger.spent) for final in mine if final.ledger.spent is not None
    ]
    if points and points[-1][0] < snapshot.at and budget.spent < float("inf"):
        points.append((snapshot.at, budget.spent))
    return points


def _charges(snapshot: ConsoleSnapshot, budget: PopulationBudget) -> Iterator[str]:
    yield "<section><h2>Charges</h2>"
    if not budget.charges:
        yield '<p class="fine">None yet: this population has not had a round.</p></section>'
        return
    newest = list(reversed(budget.charges))[:_MOST_ROWS]
    yield table(
        ("charge", "round", "when", "state", "ε alone"),
        (_row(snapshot, charge) for charge in newest),
    )
    states = "".join(f"<li>{words}</li>" for words in _STATES.values())
    yield f'<ul class="fine">{states}</ul></section>'


def _row(snapshot: ConsoleSnapshot, charge: BudgetCharge) -> str:
    round_info = snapshot.round(charge.round_id)
    name = f"<code>{short(charge.round_id)}</code>"
    return row(
        {
            "charge": f"{charge.entry:,}",
            "round": name
            if round_info is None
            else f'<a href="/rounds/{round_info.round_id}/">{name}</a>',
            "when": "" if round_info is None else moment(round_info.opened_at),
            "state": as_html(charge.state),
            "ε alone": epsilon(charge.epsilon),
        }
    )


def of_round(charge: BudgetCharge | None) -> str:
    """Describe the charge of a round that ended without an answer."""
    if charge is None:
        return "Its budget: the accountant has no charge of it among the newest."
    return {
        "released": "Its budget was given back: every node of its route signed that nothing left "
        "it.",
        "reserved": "Its budget is still reserved: it comes back when every node of its route has "
        "signed that nothing "
        "left it, and stays spent otherwise.",
    }.get(charge.state, f"Its budget is spent: ε = {epsilon(charge.epsilon)}.")
