"""The language of the project gets no worse: every measurement stays at or below its limit in
limits.json.

Lower a limit when a change lowers its measurement; never raise one. `python
tests/style/language.py` prints the measurements, and with `--places NAME` the places behind them.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import language
import pytest

LIMITS: Final = json.loads(Path(__file__).with_name("limits.json").read_text(encoding="utf-8"))

SUBJECT: Final = re.compile(r"^[a-z0-9][a-z0-9 ,/_.-]{0,30}: \S")
"""`area: what changes`."""

LONGEST_SUBJECT: Final = 72


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return language.measure().rows()


@pytest.mark.parametrize("name", LIMITS["measurements"])
def test_no_measurement_exceeds_its_limit(measured: dict[str, float], name: str) -> None:
    assert measured[name] <= LIMITS["measurements"][name], "see tests/style/language.py --places"


def test_every_measurement_has_a_limit(measured: dict[str, float]) -> None:
    assert set(LIMITS["measurements"]) == set(measured)


def test_commit_subjects_name_their_area_in_at_most_72_characters() -> None:
    """From the first commit after `commits_since` on; a shallow clone has fewer, or none."""
    since = LIMITS["commits_since"]
    if git("cat-file", "-e", since).returncode:
        pytest.skip(f"the history does not reach back to {since}")
    subjects = git("log", "--no-merges", "--format=%s", f"{since}..HEAD").stdout.splitlines()
    assert [
        line for line in subjects if len(line) > LONGEST_SUBJECT or not SUBJECT.match(line)
    ] == []


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments],  # noqa: S607
        cwd=language.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_measure_counts_what_it_says() -> None:
    source = (
        '"""For nobody."""\n\n\nclass Seen:\n    """A set."""\n\n\ndef asked(found: int) -> '
        'int:\n    """No."""\n'
    )
    source += "    a, b = max(found, 1), min(found, 2)\n    return a + b\n"
    into = language.Measured()
    language.measure_code(source, "x.py", into)
    assert (len(into.vague), len(into.participles), len(into.parallel)) == (2, 2, 1)
    assert (into.identifiers, into.prose_words, into.phrases["nobody"]) == (5, 5, 1)
    language.measure_prose(language.without_code("so many\n\n    so many\n\n`so many`\n"), into)
    assert into.phrases["so many"] == 1
