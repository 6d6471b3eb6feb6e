"""Predictions: whatever is meant is taken, what cannot be meant is refused with a sentence while it
can be mended."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shuffledp_labs import predictions
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import all_labs
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import Lab
from shuffledp_labs.predictions import prediction_points, predictions_of

LAB = lab_of(6)


def kept(folder: Path, **told: str) -> dict[str, object]:
    right = {"alone": "2", "two_left": "0.6", "half_stays": '"about .8"', "checked": '"both"'}
    lines = right | told
    (folder / "predict.toml").write_text(
        "# a share: .5\n" + "".join(f"{key} = {to}\n" for key, to in lines.items())
    )
    return predictions.record_predictions(folder, LAB)


@pytest.mark.parametrize(
    ("text", "number"), [(".15", 0.15), ("0.15", 0.15), ("0", 0), ("1", 1), ("+.5", 0.5)]
)
def test_a_number_may_stand_as_the_handouts_write_it(
    tmp_path: Path, text: str, number: float
) -> None:
    found = kept(tmp_path, two_left=text)
    assert found["two_left"] == number
    assert found["half_stays"] == "about .8"


@pytest.mark.parametrize("text", ["95", "1.01", "-.1"])
def test_a_share_in_percent_is_refused_with_a_sentence_and_can_be_mended(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(
        LabUsageError, match=r"`two_left` lies from 0 to 1, so .* 95% is `two_left = 0\.95`"
    ):
        kept(tmp_path, two_left=text)
    assert not (tmp_path / predictions.RECORD).exists()
    assert predictions.read_answers(tmp_path, LAB)["two_left"] == float(
        text
    )  # a grader gives the points all the same
    assert kept(tmp_path, two_left=".95")["two_left"] == 0.95
    assert kept(tmp_path, two_left="95")["two_left"] == 0.95  # what was kept once is kept


@pytest.mark.parametrize("text", ["60 %", "1,5", "about half", "5.", "1,000"])
def test_what_is_no_number_is_explained(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        LabUsageError, match=r"at line 3, .* Write a number without unit .* such as 0\.5"
    ):
        kept(tmp_path, two_left=text)


def comment_on(key: str, text: str) -> str:
    """What stands above a question's line in predict.toml."""
    before = text[: text.index(f"\n{key} = ")]
    return before.rsplit("\n\n", 1)[-1]


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_questions_for_shares_and_percents_say_how_far_they_go(lab: Lab) -> None:
    for asked in lab.predictions:
        if asked.unit in {"percent", "%"} or "of 100" in asked.question:
            assert asked.most == 100
        if "from 0 to 1" in comment_on(asked.key, lab.file("predict.toml").read_text()):
            assert asked.most == 1


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_every_prediction_is_asked_for_in_the_file(lab: Lab) -> None:
    asked = tomllib.loads(lab.file("predict.toml").read_text())
    assert list(asked) == [each.key for each in lab.predictions]
    assert not any(asked.values())


@pytest.mark.parametrize(
    ("text", "number"), [('"0.6"', 0.6), ('" .6 "', 0.6), ('"1"', 1), ('"+.5"', 0.5)]
)
def test_a_number_may_stand_between_the_quotes_that_the_file_comes_with(
    tmp_path: Path, text: str, number: float
) -> None:
    assert kept(tmp_path, two_left=text)["two_left"] == number
    assert prediction_points(LAB, tmp_path) == 5


@pytest.mark.parametrize("text", ['"about half"', '"nan"', '"inf"', '""'])
def test_words_are_no_number_and_the_other_predictions_are_shown_all_the_same(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(LabUsageError, match="two_left"):
        kept(tmp_path, two_left=text)
    assert predictions_of(LAB, tmp_path) == {
        "alone": 2,
        "half_stays": "about .8",
        "checked": "both",
    }
    assert prediction_points(LAB, tmp_path) == 0
