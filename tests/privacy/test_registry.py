"""The analyses are found when a mechanism is first asked about: nobody imports a registry by
hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shuffledp_core.errors import UsageError
from shuffledp_privacy.bounds import Setting, epsilon_bounds

QUESTIONS = {
    "epsilon_bounds": """
from fractions import Fraction
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_privacy.bounds import Setting, epsilon_bounds
assert epsilon_bounds(GeoShuffle(max_value=2, epsilon_geo=Fraction(1, 2), padding=40), Setting(50, 50), 1e-3).basis
""",  # noqa: E501
    "composition": """
from fractions import Fraction
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
assert compose_epsilon([Round(RRShuffle(max_value=2, randomise=Fraction(1, 2)), Setting(50, 50), 2)], 1e-3) > 0
""",  # noqa: E501
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_first_question_is_answered_in_a_fresh_process(question: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_nobody_registered_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no privacy analysis of object"):
        epsilon_bounds(object(), Setting(2, 2), 1e-3)
