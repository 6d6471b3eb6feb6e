"""What a lab imports only when it is called: it is there, and `lab list` does without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab, LazyFunction

LISTING = """
import sys
from shuffledp_labs.installed import all_labs
print(*[lab.title for lab in all_labs()])
sys.exit(sorted({"numpy", "scipy", "grpc", "matplotlib"} & set(sys.modules)) or 0)
"""


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_every_function_that_a_lab_names_is_there(lab: Lab) -> None:
    runs: list[object] = [lab.show, *(check.run for check in lab.checks)]
    named = [run for run in runs if isinstance(run, LazyFunction)]
    assert all(run.package == lab.folder for run in named)
    places = [run.path for run in named]
    assert len(places) == len(set(places))
    assert all(callable(run.function) for run in named)


def test_the_labs_are_listed_without_what_takes_long_to_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTING], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert "Lie well" in done.stdout
