"""How a reader gets from `shuffledp certify` to its number: down the calls, never back and forth.

The walk is the stack of calls at the moment when the certified number is computed. It counts the
modules, and how often the walk returns to a module that it had left.
"""

from __future__ import annotations

import sys
from itertools import groupby
from types import FrameType
from typing import Any, Final

import pytest

from shuffledp import cli
from shuffledp_privacy.histogram.blanket import GridBlanket

CERTIFY: Final = "certify krr-histogram --users 10007 --symbols 10 --epsilon0 1 --delta 1e-6"

MOST_RETURNS: Final = 4

MOST_MODULES: Final = 12


def walk_from(frame: FrameType | None) -> list[str]:
    """Our modules on the stack, outermost first, each once for every time it is entered."""
    names: list[str] = []
    while frame is not None:
        names.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    ours = [name for name in reversed(names) if name.startswith("shuffledp")]
    return [name for name, _ in groupby(ours)]


def returns(walk: list[str]) -> int:
    """How often the walk enters a module that it had left."""
    return len(walk) - len(set(walk))


def test_certify_goes_down_to_its_number_without_returning_to_modules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walks: list[list[str]] = []
    upper = GridBlanket.upper

    def recorded(blanket: GridBlanket, *arguments: Any) -> Any:
        walks.append(walk_from(sys._getframe(1)))
        return upper(blanket, *arguments)

    monkeypatch.setattr(GridBlanket, "upper", recorded)
    monkeypatch.setattr(sys, "argv", ["shuffledp", *CERTIFY.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "ε certified" in capsys.readouterr().out
    assert max(map(returns, walks)) <= MOST_RETURNS
    assert max(len(set(walk)) for walk in walks) <= MOST_MODULES


def test_a_return_is_a_module_that_is_entered_again() -> None:
    assert returns(["a", "b", "a", "c", "b"]) == 2
