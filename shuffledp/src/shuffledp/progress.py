"""Progress of long work on standard error: bars on a terminal, otherwise plain lines."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

PATIENCE_SECONDS: Final = 2.0
"""Seconds before progress is shown: shorter waits need no explanation."""

INTERVAL_SECONDS: Final = 10.0
"""Between two plain lines."""


class Stages:
    """Display of the stages of some work, from `__enter__` to `__exit__`.

    On a terminal a bar appears for each stage, as soon as it begins. Elsewhere a line says how far
    the newest stage is: first after `PATIENCE_SECONDS`, then every `INTERVAL_SECONDS`. A quiet
    console stays quiet.

    Args:
        console: of standard error.
        after: seconds before the first bar, for work that is often over at once.
    """

    def __init__(self, console: Console, *, after: float = 0.0) -> None:
        ascii_only = console.options.ascii_only
        self._progress = Progress(
            SpinnerColumn("line" if ascii_only else "dots", finished_text="[green]✓[/green]"),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lines = _Lines(console)
        self._ticker: _Ticker | None = None
        if not console.is_terminal and not console.quiet:
            self._ticker = _Ticker(self._lines.say, PATIENCE_SECONDS, INTERVAL_SECONDS)
        elif after:
            self._ticker = _Ticker(self._progress.start, after, None)

    def __enter__(self) -> Self:
        if self._ticker is None:
            self._progress.start()
        else:
            self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ticker is not None:
            self._ticker.stop()
        self._progress.stop()

    def begin(self, stage: str) -> None:
        """Show a stage without known progress."""
        self._show(stage, 0, None)

    def update(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` of a stage is done; the first call adds its bar."""
        self._show(stage, done, max(total, 1))

    @contextmanager
    def one(self, stage: str) -> Iterator[None]:
        """Context that shows a stage which is done in one step."""
        self.update(stage, 0, 1)
        yield
        self.update(stage, 1, 1)

    def _show(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._tasks[stage], completed=done, total=total)
        self._lines.newest = (stage, done, total)

    def finish(self) -> None:
        """Complete every bar, because the last counts of a stage may not have been reported."""
        for task in self._progress.tasks:
            total = task.total or 1
            self._progress.update(task.id, completed=total, total=total)


@contextmanager
def working(stage: str) -> Iterator[None]:
    """Context that shows that work is in progress, if it takes longer than two seconds."""
    with Stages(Console(stderr=True), after=PATIENCE_SECONDS) as stages:
        stages.begin(stage)
        yield


class _Lines:
    """Progress as plain lines; `newest` is the last updated stage, with done and total."""

    def __init__(self, console: Console) -> None:
        self.newest: tuple[str, int, int | None] | None = None
        self._console = console
        self._began = time.monotonic()

    def say(self) -> None:
        """Print one line, unless it is empty or the console is quiet."""
        if self.newest is None:
            return
        stage, done, total = self.newest
        counts = "" if total is None else f": {done:,} of {total:,}"
        line = f"{stage}{counts} ({time.monotonic() - self._began:.0f} s)"
        with contextlib.suppress(OSError, ValueError):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Ticker:
    """Calls `tick` after some seconds, and then at each interval, until stopped."""

    def __init__(self, tick: Callable[[], None], first: float, interval: float | None) -> None:
        self._tick = tick
        self._first = first
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._tick_until_stopped, name="progress", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the ticker; nothing is printed after this returns. Safe to call twice."""
        self._stopped.set()
        self._thread.join()

    def _tick_until_stopped(self) -> None:
        if self._stopped.wait(self._first):
            return
        self._tick()
        while self._interval is not None and not self._stopped.wait(self._interval):
            self._tick()
