"""A question in words, typed into the console's form."""

from __future__ import annotations

import msgspec
import pytest

from shuffledp_core.documents.wording import (
    QuestionAxis,
    QuestionWording,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
)
from shuffledp_core.errors import UsageError
from shuffledp_ops.console.actions import DEFAULTS, plan_of
from shuffledp_ops.console.forms import ask, confirm_open
from shuffledp_ops.console.frame import Viewer
from shuffledp_ops.keys.pki import Deployment, create_deployment

VIEWER = Viewer("x", live=True, version="1")
FIELDS = {**DEFAULTS, "population": "demo", "min_reports": "100", "max_reports": "200"}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Keys of a deployment of which nothing runs."""
    names = ("node-1", "node-2", "analyst", "accountant")
    with_ports = {name: f"127.0.0.1:{port}" for port, name in enumerate(names, start=1)}
    return create_deployment(tmp_path_factory.mktemp("console") / "keys", with_ports)


@pytest.mark.parametrize(
    ("values", "meaning", "shown"),
    [
        ("", SymbolScale(start="0", step="1", size=21), "0 to 20 h"),
        ("scale: 18.5, 0.5", SymbolScale(start="18.5", step="0.5", size=21), "18.5 to 28.5 h"),
        ("ranges: 0, 15, inf", SymbolRanges(edges=("0", "15", "inf")), "0 or more h"),
        ("names: none;  some ; all", SymbolNames(names=("none", "some", "all")), "none h, some h"),
    ],
)
def test_a_form_takes_the_question_in_words_and_carries_it_on(
    deployment: Deployment, values: str, meaning: SymbolMeaning, shown: str
) -> None:
    words = {"words_id": "sleep", "words_text": "How long\ndid you <b>sleep</b>?"}
    words |= {"words_field": "hours", "words_unit": "h", "words_values": values}
    plan = plan_of({**FIELDS, **words}, deployment.roster)
    assert plan.wording is not msgspec.UNSET
    assert plan.wording.axes == (QuestionAxis(field="hours", unit="h", symbols=meaning),)
    assert plan.wording.text == "How long did you <b>sleep</b>?"
    page = confirm_open(VIEWER, plan, {**FIELDS, **words}, None, "token")
    assert "How long did you &lt;b&gt;sleep&lt;/b&gt;? (sleep)" in page
    assert f"histogram of “hours”: {shown}" in page
    assert 'name="words_field" value="hours"' in page


def test_a_form_asks_for_a_table_of_several_fields(deployment: Deployment) -> None:
    fields = {
        **FIELDS,
        "mechanism": "node-histogram",
        "words_id": "smokers",
        "words_text": "Who smokes?",
        "words_field": "smoker | age",
        "words_unit": "| years",
        "words_values": "names: yes; no | ranges: 0, 18, inf",
    }
    plan = plan_of(fields, deployment.roster)
    assert isinstance(plan.wording, QuestionWording)
    assert plan.wording.shape == (2, 2)
    assert [axis.unit for axis in plan.wording.axes] == ["", "years"]
    assert plan.wording.others == "none of these"
    assert plan.size == 5
    page = confirm_open(VIEWER, plan, fields, None, "token")
    assert "“smoker”: yes, no; “age”: 0 or more years; all others: none of these" in page
    by_columns = plan_of({**fields, "mechanism": "node-columns"}, deployment.roster)
    assert by_columns.size == 4


def test_a_form_asks_for_the_most_frequent_texts(deployment: Deployment) -> None:
    fields = {**FIELDS, "words_id": "pages", "words_text": "Which homepage?"}
    fields |= {"words_field": "homepage", "words_values": "texts"}
    plan = plan_of(fields, deployment.roster)
    assert isinstance(plan.wording, QuestionWording)
    assert plan.wording.is_open
    assert plan.mechanism == "node-columns"
    assert plan_of(fields, deployment.roster) == plan
    page = confirm_open(VIEWER, plan, fields, None, "token")
    assert "“homepage”: any text of up to 256 characters" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            {"words_field": "a | b", "words_values": "names: yes; no"},
            "“Meaning of the values”: 2 fields need as many parts, separated by “|”, not 1",
        ),
        (
            {"words_field": "a | b", "words_values": "texts | texts"},
            "an open list must be its question",
        ),
        (
            {"words_field": "a | b", "words_unit": "h", "words_values": "texts | texts"},
            "“Unit”: 2 fields need as many parts",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_named(
    deployment: Deployment, words: dict[str, str], says: str
) -> None:
    fields = {**FIELDS, "words_id": "q", "words_text": "Q?", **words}
    with pytest.raises(UsageError) as refused:
        plan_of(fields, deployment.roster)
    assert says in ask(VIEWER, deployment.roster, fields, str(refused.value))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"words_unit": "h"}, "“Identifier of the question”: a question in words needs this field"),
        ({"words_id": "q", "words_text": "Q?"}, "“Field”: a question in words needs this field"),
        ({"words_id": "No", "words_text": "Q?", "words_field": "f"}, "is not a valid identifier"),
        (
            {"words_id": "q", "words_text": "Q?", "words_field": "f", "words_values": "1 to 5"},
            "“Meaning of the values”: write “names: yes; no”",
        ),
        (
            {"words_id": "q", "words_text": "Q?", "words_field": "f", "words_values": "x" * 301},
            "shuffledp round --words",
        ),
    ],
)
def test_wrong_words_in_a_form_are_named(
    deployment: Deployment, words: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of({**FIELDS, **words}, deployment.roster)
    assert says in ask(VIEWER, deployment.roster, words, str(refused.value))
