"""The operator's forms: each shows its effect first, and asks for confirmation.

They work without JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from shuffledp.pages import as_html
from shuffledp_core.documents.models import Roster, RoundPlan
from shuffledp_core.documents.wording import LONGEST_NAME, LONGEST_TEXT, LONGEST_UNIT
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.console.actions import DEFAULTS, LONGEST_VALUES, MOST_REASON
from shuffledp_ops.console.frame import Viewer, frame_page, short
from shuffledp_ops.console.model import PopulationBudget, RoundInfo

_FIELDS: Final = {
    "max_value": (
        "Largest value",
        "Values are whole numbers from 0 to this. With names or ranges it follows from them.",
        "numeric",
    ),
    "epsilon": (
        "ε",
        "Target in nats. A smaller ε protects more, and makes the answer less accurate.",
        "decimal",
    ),
    "delta": (
        "δ",
        "Probability that the guarantee leaves out; far below 1 / number of people.",
        "decimal",
    ),
    "epsilon_local": (
        "Largest ε_L",
        "What a person keeps if every node is corrupt; empty: any. Values then go through k-RR "
        "first, which makes the answer less accurate.",
        "decimal",
    ),
    "min_reports": (
        "Minimum reports",
        "With fewer, the round ends without an answer, and nothing is forwarded.",
        "numeric",
    ),
    "max_reports": ("Maximum reports", "The round closes when this many have arrived.", "numeric"),
    "colluding": (
        "Assumed colluding users",
        "Reports that the guarantee does not rely on; empty: 5% of the minimum.",
        "numeric",
    ),
    "open_minutes": ("Minutes", "How long submissions stay open.", "decimal"),
    "question": (
        "Question number",
        "For memoised responses (RAPPOR): rounds with the same number reuse the response, so "
        "each question needs its own. Otherwise 0.",
        "numeric",
    ),
}

_WORDS: Final = {
    "words_id": (
        "Identifier of the question",
        "For policies of devices and for tables: a-z, 0-9, “.”, “_”, “-”. Leave it and the four "
        "fields below empty to ask without words.",
        64,
    ),
    "words_text": (
        "Question",
        "One sentence, which devices show; it is signed and becomes public.",
        LONGEST_TEXT,
    ),
    "words_field": (
        "Field",
        "Name of the field in a device's record; for a table 2 to 4, such as “sex | age”.",
        LONGEST_NAME + 50,
    ),
    "words_unit": (
        "Unit",
        "Of the field's numbers; empty: none. For a table one part for each field: “| years”.",
        LONGEST_UNIT + 16,
    ),
    "words_values": (
        "Meaning of the values",
        "“names: yes; no”, “ranges: 0, 15, 60, inf” or “scale: 18.5, 0.5”, its first number and "
        "its step. “texts” asks for the most frequent texts. For a table one part for each field: "
        "“names: f; m | ranges: 0, 18, inf”. Empty: whole numbers from 0.",
        LONGEST_VALUES,
    ),
}
"""Label, hint and most characters of the fields of a question in words."""

_MIXING: Final = (
    "Verified: anyone can check that each listed person's messages reached the board unchanged; "
    "devices and nodes need more computing time."
)


def ask(viewer: Viewer, roster: Roster, fields: Mapping[str, str], refusal: str = "") -> str:
    """The form for a new round, with the values typed so far and the reason of a refusal."""
    typed = {**DEFAULTS, **fields}
    populations = {option.name: option.name for option in roster.populations}
    kinds = {
        name: f"{name} ({'histogram' if kind.answers is Answers.HISTOGRAM else 'sum and mean'})"
        for name, kind in MECHANISMS.items()
    }
    problem = f'<p class="note" role="alert">{as_html(_with_label(refusal))}</p>' if refusal else ""
    boxes = [
        _choice(
            "population",
            "Population",
            "Who is asked, and whose budget is charged.",
            populations,
            typed,
        ),
        _choice("mechanism", "Mechanism", "How devices randomise their values.", kinds, typed),
        _choice("mix", "Mixing", _MIXING, {option.value: option.value for option in Mix}, typed),
        *(_field(name, *words, typed.get(name, "")) for name, words in _FIELDS.items()),
        *(
            _field(name, label, hint, "text", typed.get(name, ""), most)
            for name, (label, hint, most) in _WORDS.items()
        ),
    ]
    button = "<p><button>Review plan</button></p>"
    form = (
        f'<form method="get" action="/open/confirm" class="ask '
        f'fields">{"".join(boxes)}{button}</form>'
    )
    note = (
        '<p class="fine">Nothing is sent to devices yet. All nodes of the roster are on the '
        "route.</p>"
    )
    return frame_page(
        viewer, "Open a round", ["<h1>Open a round</h1>", problem, note, form], follows=False
    )


def _with_label(refusal: str) -> str:
    """An error message that begins with the form's label instead of the field's name."""
    name, colon, words = refusal.partition(": ")
    labels = {"population": "Population", "mechanism": "Mechanism", "mix": "Mixing"}
    labels |= {field: words[0] for field, words in [*_FIELDS.items(), *_WORDS.items()]}
    return f"“{labels[name]}”{colon}{words}" if name in labels else refusal


def _field(name: str, label: str, hint: str, mode: str, value: str, most: int = 40) -> str:
    return (
        f'<p><label for="{name}">{label}</label><input id="{name}" name="{name}" '
        f'value="{as_html(value)}" '
        f'inputmode="{mode}" maxlength="{most}" autocomplete="off" aria-describedby="{name}-hint">'
        f'<span class="fine" id="{name}-hint">{hint}</span></p>'
    )


def _choice(
    name: str, label: str, hint: str, options: Mapping[str, str], typed: Mapping[str, str]
) -> str:
    drawn = "".join(
        f'<option value="{as_html(value)}"{" selected" if typed.get(name) == value else ""}>'
        f"{as_html(words)}</option>"
        for value, words in options.items()
    )
    return (
        f'<p><label for="{name}">{label}</label><select id="{name}" name="{name}" '
        f'aria-describedby="{name}-hint">'
        f'{drawn}</select><span class="fine" id="{name}-hint">{hint}</span></p>'
    )


def confirm_open(
    viewer: Viewer,
    plan: RoundPlan,
    fields: Mapping[str, str],
    budget: PopulationBudget | None,
    token: str,
) -> str:
    """The page that shows a plan and its population's remaining budget before the round opens."""
    histogram = MECHANISMS[plan.mechanism].answers is Answers.HISTOGRAM
    crowd = MECHANISMS[plan.mechanism].needs_crowd
    left = (
        "unknown at the moment"
        if budget is None
        else f"{budget.left:.4g} of {budget.limit:g} at δ = {budget.delta:g}"
    )
    answer = "histogram" if histogram else "sum and mean"
    question_rows = {"question": f"{answer} of whole numbers from 0 to {fields['max_value']}"}
    if plan.wording is not UNSET:
        axes = (f"“{axis.field}”: {axis.symbols.describe(axis.unit)}" for axis in plan.wording.axes)
        others = f"; all others: {plan.wording.others}" if plan.wording.others else ""
        question_rows = {
            "question": f"{plan.wording.text} ({plan.wording.id})",
            "answer": f"{answer} of {'; '.join(axes)}{others}",
        }
    rows = question_rows | {
        "population": f"“{plan.population}”",
        "guarantee": f"ε = {plan.epsilon:g} at δ = {plan.delta:g}, while one node of "
        f"{', '.join(plan.route)} is honest{'' if crowd else '; no honest people needed'}",
        "every node corrupt": "no limit of ε_L"
        if plan.epsilon_local is UNSET
        else f"ε_L = {plan.epsilon_local:g} at most",
        "reports": f"{plan.min_reports:,} to {plan.max_reports:,}, of which {plan.colluding:,} "
        f"may collude",
        "open for": f"{plan.open_seconds / 60:g} minutes",
        "mixing": "verified: anyone can check it" if plan.mix == Mix.VERIFIED else "plain",
        "question number": f"{plan.question}",
        "remaining budget": left,
    }
    words = (
        "The accountant reserves the round's cost before it opens. If the round fails, the cost is "
        "released once every node has signed that nothing left it."
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


def confirm_end(viewer: Viewer, round_info: RoundInfo, token: str) -> str:
    """The page that confirms closing the submissions early."""
    needed = round_info.announced.min_reports if round_info.announced is not None else 0
    rows = {"reports so far": f"{round_info.accepted:,}", "needed": f"{needed:,}"}
    words = "Devices that have not answered yet can no longer do so."
    if round_info.accepted < needed:
        words += " There are fewer reports than the minimum: the round will end without an answer."
    title, action = (
        f"Close the submissions of round {short(round_info.round_id)}?",
        f"/rounds/{round_info.round_id}/end",
    )
    return _confirm(viewer, title, rows, words, action, "Close submissions", {"token": token})


def confirm_abort(viewer: Viewer, round_info: RoundInfo, token: str) -> str:
    """The page that confirms cancelling a round."""
    words = (
        "Nothing will be published, and the round's keys are erased. Its cost is released only if "
        "every node signs that nothing left it."
    )
    reason = (
        '<p><label for="reason">Reason</label><input id="reason" name="reason" required '
        f'maxlength="{MOST_REASON}" autocomplete="off" aria-describedby="reason-hint">'
        '<span class="fine" id="reason-hint">It becomes part of the signed, public '
        "result.</span></p>"
    )
    title, action = (
        f"Cancel round {short(round_info.round_id)}?",
        f"/rounds/{round_info.round_id}/abort",
    )
    rows = {"reports so far": f"{round_info.accepted:,}"}
    return _confirm(
        viewer,
        title,
        rows,
        words,
        action,
        "Cancel round",
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
    facts = "".join(f"<dt>{name}</dt><dd>{as_html(value)}</dd>" for name, value in rows.items())
    carried = "".join(
        f'<input type="hidden" name="{name}" value="{as_html(value)}">'
        for name, value in hidden.items()
    )
    kind = ' class="danger"' if danger else ""
    form = (
        f'<form method="post" action="{action}" class="ask">{carried}{more}'
        f'<p class="buttons"><button{kind}>{button}</button> <a class="button" href="/">No, go '
        f"back</a></p></form>"
    )
    return frame_page(
        viewer, title, [f"<h1>{title}</h1><dl>{facts}</dl><p>{words}</p>", form], follows=False
    )
