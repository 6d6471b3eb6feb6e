"""`shuffledp` in this process: a start of Python less for every line that is only refused."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shuffledp import cli

Shell = Callable[..., tuple[int, str, str]]


def shell(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Runs words as `main` does, in a folder; exit code, standard output, standard error."""
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["shuffledp", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    return run
