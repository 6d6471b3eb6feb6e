"""The forms of who operates: each is first shown as it will be done, then confirmed.

They work without JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shuffledp.pages import shown
from shuffledp_core.documents.models import Roster, RoundPlan
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.console.actions import DEFAULTS, MOST_REASON
from shuffledp_ops.console.frame import Viewer, framed, short
from shuffledp_ops.console.model import Budget, Round

_FIELDS: Final = {
    "max_value": ("Largest value", "Values are whole numbers from 0 to this.", "numeric"),
    "epsilon": (
        "ε",
        "The target, in nats. A smaller one protects more, and makes the answer less exact.",
        "decimal",
    ),
    "delta": (
        "δ",
        "The chance that is left out of the promise; far below one in the number of people.",
        "decimal",
    ),
    "min_reports": (
        "Fewest reports",
        "With fewer the round ends without an answer, and nothing is forwarded.",
        "numeric",
    ),
    "max_reports": ("Most reports", "The round closes when so many have arrived.", "numeric"),
    "colluding": (
        "Colluding people",
        "Reports that the guarantee does not count on; empty: 5 % of the fewest.",
        "numeric",
    ),
    "open_minutes": ("Minutes", "Submissions are taken for so long.", "decimal"),
    "question": (
        "Number of the question",
        "Where devices keep their response (RAPPOR): rounds of one number share it, another "
        "question needs another "
        "number. Else 0.",
        "numeric",
    ),
}

_MIXING: Final = (
    "Verified: everybody can check that each listed person's messages reached the board "
    "unchanged; devices and nodes "
    "work more for it."
)


def ask(viewer: Viewer, roster: Roster, fields: Mapping[str, str], refusal: str = "") -> str:
    """The form of a new round, with what was typed so far and why that does not do."""
    typed = {**DEFAULTS, **fields}
    populations = {one.name: one.name for one in roster.populations}
    kinds = {
        name: f"{name} ({'histogram' if kind.answers is Answers.HISTOGRAM else 'sum and mean'})"
        for name, kind in MECHANISMS.items()
    }
    problem = f'<p class="note" role="alert">{shown(_labelled(refusal))}</p>' if refusal else ""
    boxes = [
        _choice("population", "People", "Whose budget it is.", populations, typed),
        _choice("mechanism", "Mechanism", "How devices randomise.", kinds, typed),
        _choice("mix", "Mixing", _MIXING, {one.value: one.value for one in Mix}, typed),
        *(_field(name, *words, typed.get(name, "")) for name, words in _FIELDS.items()),
    ]
    button = "<p><button>Look at the plan</button></p>"
    form = (
        f'<form method="get" action="/open/confirm" class="ask '
        f'fields">{"".join(boxes)}{button}</form>'
    )
    note = (
        '<p class="fine">Nothing is asked of anybody yet. All nodes of the roster are on the '
        "route.</p>"
    )
    return framed(
        viewer, "Open a round", ["<h1>Open a round</h1>", problem, note, form], follows=False
    )


def _labelled(refusal: str) -> str:
    """A refusal that begins with the name of a field, with what the page calls that field in its
    place.
    """
    name, colon, words = refusal.partition(": ")
    labels = {"population": "People", "mechanism": "Mechanism", "mix": "Mixing"}
    labels |= {field: said[0] for field, said in _FIELDS.items()}
    return f"“{labels[name]}”{colon}{words}" if name in labels else refusal


def _field(name: str, label: str, hint: str, mode: str, value: str) -> str:
    return (
        f'<p><label for="{name}">{label}</label><input id="{name}" name="{name}" '
        f'value="{shown(value)}" '
        f'inputmode="{mode}" maxlength="40" autocomplete="off" aria-describedby="{name}-hint">'
        f'<span class="fine" id="{name}-hint">{hint}</span></p>'
    )


def _choice(
    name: str, label: str, hint: str, options: Mapping[str, str], typed: Mapping[str, str]
) -> str:
    drawn = "".join(
        f'<option value="{shown(value)}"{" selected" if typed.get(name) == value else ""}>'
        f"{shown(words)}</option>"
        for value, words in options.items()
    )
    return (
        f'<p><label for="{name}">{label}</label><select id="{name}" name="{name}" '
        f'aria-describedby="{name}-hint">'
        f'{drawn}</select><span class="fine" id="{name}-hint">{hint}</span></p>'
    )


def confirm_open(
    viewer: Viewer, plan: RoundPlan, fields: Mapping[str, str], budget: Budget | None, token: str
) -> str:
    """What will be asked and of whom, with what its people have left."""
    histogram = MECHANISMS[plan.mechanism].answers is Answers.HISTOGRAM
    left = (
        "not known now"
        if budget is None
        else f"{budget.left:.4g} of {budget.limit:g} at δ = {budget.delta:g}"
    )
    rows = {
        "question": f"{'histogram' if histogram else 'sum and mean'} of whole numbers from 0 to "
        f"{fields['max_value']}",
        "people": f"“{plan.population}”",
        "guarantee": f"ε = {plan.epsilon:g} at δ = {plan.delta:g}, while one node of "
        f"{', '.join(plan.route)} is honest",
        "reports": f"{plan.min_reports:,} to {plan.max_reports:,}, of which {plan.colluding:,} "
        f"may collude",
        "open for": f"{plan.open_seconds / 60:g} minutes",
        "mixing": "verified: everybody can check it" if plan.mix == Mix.VERIFIED else "plain",
        "number of the question": f"{plan.question}",
        "ε left to these people": left,
    }
    words = (
        "The accountant reserves its cost before anybody is asked. It comes back only when every "
        "node signs that "
        "nothing left it."
    )
    hidden = {name: fields.get(name, "") for name in ("population", *DEFAULTS)}
    return _confirm(
        viewer,
        "Open this round?",
        rows,
        words,
        "/open",
        "Open the round",
        hidden | {"token": token},
    )


def confirm_end(viewer: Viewer, one: Round, token: str) -> str:
    """The end of submissions, before the closing time."""
    needed = one.announced.min_reports if one.announced is not None else 0
    rows = {"reports so far": f"{one.accepted:,}", "needed": f"{needed:,}"}
    words = "Who has not answered yet no longer can."
    if one.accepted < needed:
        words += " There are fewer reports than needed: the round will end without an answer."
    title, action = (
        f"End the submissions of round {short(one.round_id)}?",
        f"/rounds/{one.round_id}/end",
    )
    return _confirm(viewer, title, rows, words, action, "End submissions", {"token": token})


def confirm_abort(viewer: Viewer, one: Round, token: str) -> str:
    """The end of a round without an answer."""
    words = (
        "Nothing will be published, and the round's keys are erased. Its budget comes back only "
        "if every node signs "
        "that nothing left it."
    )
    reason = (
        '<p><label for="reason">Reason</label><input id="reason" name="reason" required '
        f'maxlength="{MOST_REASON}" autocomplete="off" aria-describedby="reason-hint">'
        '<span class="fine" id="reason-hint">It goes into the signed result, for everybody to '
        "read.</span></p>"
    )
    title, action = f"Give up round {short(one.round_id)}?", f"/rounds/{one.round_id}/abort"
    rows = {"reports so far": f"{one.accepted:,}"}
    return _confirm(
        viewer,
        title,
        rows,
        words,
        action,
        "Give the round up",
        {"token": token},
        reason,
        danger=True,
    )


def _confirm(
    viewer: Viewer,
    title: str,
    rows: Mapping[str, str],
    words: str,
    action: str,
    button: str,
    hidden: Mapping[str, str],
    more: str = "",
    *,
    danger: bool = False,
) -> str:
    facts = "".join(f"<dt>{name}</dt><dd>{shown(value)}</dd>" for name, value in rows.items())
    carried = "".join(
        f'<input type="hidden" name="{name}" value="{shown(value)}">'
        for name, value in hidden.items()
    )
    kind = ' class="danger"' if danger else ""
    form = (
        f'<form method="post" action="{action}" class="ask">{carried}{more}'
        f'<p class="buttons"><button{kind}>{button}</button> <a class="button" href="/">No, go '
        f"back</a></p></form>"
    )
    return framed(
        viewer, title, [f"<h1>{title}</h1><dl>{facts}</dl><p>{words}</p>", form], follows=False
    )
