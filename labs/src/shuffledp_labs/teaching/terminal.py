"""Progress output of `lab check`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from shuffledp_labs.checking import Watcher
from shuffledp_labs.lab import CHECK_POINTS, Check
from shuffledp_labs.results import CheckResult, LabResult, write_result

_MARKS = {
    "passed": "[green]✓[/green]",
    "failed": "[red]✗[/red]",
    "error": "[red]![/red]",
    "not-reached": "[dim]–[/dim]",
    "left-out": "[dim]–[/dim]",
}

NO_BOX = (
    "warning: no sandbox works here, so your program runs with your own rights: check only what "
    "you wrote yourself (shuffledp lab doctor says why)"
)


class Screen(Watcher):
    """Shows one line for each check, and a progress line while it runs."""

    def __init__(self, file: Path, *, quiet: bool = False) -> None:
        self._file = file
        self._console = Console(highlight=False, soft_wrap=True, quiet=quiet)
        self._status: Status | None = None

    def starts(self, check: Check) -> None:
        """See Watcher."""
        self._status = self._console.status(escape(f"{check.name}: {check.title}"))
        if self._console.is_terminal:
            self._status.start()

    def progress(self, text: str) -> None:
        """See Watcher."""
        if self._status is not None:
            self._status.update(escape(text))

    def ends(self, check: Check, result: CheckResult, printed: str) -> None:
        """See Watcher."""
        self._stop()
        points = f"{result.points:2} of {result.of}"
        self._console.print(
            f"{_MARKS[result.outcome]} {check.name:<12} {points:>8}  {escape(check.title)}"
        )
        self._console.print(
            f"    {escape(result.message)}", style="" if result.outcome == "failed" else "dim"
        )
        if printed.strip():
            lines = [line[:200] for line in printed.splitlines() if line.strip()][-5:]
            self._console.print(
                "    the end of what your program printed:",
                *(f"      {escape(_plain(text))}" for text in lines),
                sep="\n",
            )

    def writes(self, result: LabResult) -> None:
        """See Watcher."""
        write_result(self._file, result)

    def closes(self, result: LabResult) -> None:
        """Show the sum of points at the end."""
        self._stop()
        if result.box == "none":
            self._console.print(NO_BOX, style="bold red")
        self._console.print(f"{result.points} of {result.possible} points for checks; {self._file}")
        if result.partial:
            run = sum(check.outcome != "left-out" for check in result.checks)
            self._console.print(
                f"a partial run, {run} of {len(result.checks)} checks: all of them are "
                f"{CHECK_POINTS} points, by `shuffledp lab check {result.lab}`, and only a run of "
                "all counts for the report"
            )

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _plain(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)
