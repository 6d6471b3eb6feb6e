"""Progress of a round on a terminal: one bar per stage, on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Stages:
    """Bars that appear when their stage begins. Silent where standard error is no terminal, unless told otherwise."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/green]"),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, stage: str, done: int, total: int) -> None:
        """Shows `stage` at done of total; the first call makes its bar."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=max(total, 1))
        self._progress.update(self._tasks[stage], completed=done, total=max(total, 1))

    def finish(self) -> None:
        """Completes every bar: the round is over, though the last counts of a stage may not have been reported."""
        for task in self._progress.tasks:
            self._progress.update(task.id, completed=task.total)
