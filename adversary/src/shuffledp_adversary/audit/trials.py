"""Progress of an audit's or an attack's trials: a bar on a terminal, or occasional lines."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from rich.console import Console

from shuffledp.progress import Stages

LINES: Final = 20
"""Plain lines at most for one stage: one for each twentieth of its trials."""


class TrialProgress:
    """Reports trials on standard error, so that long counts are not silent without a bar."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(stderr=True) if console is None else console
        self._stages = Stages(self._console) if self._console.is_terminal else None
        self._shown: dict[str, int] = {}

    def __enter__(self) -> Self:
        if self._stages is not None:
            self._stages.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stages is not None:
            self._stages.__exit__(kind, error, trace)

    def update(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` trials of a stage are done."""
        if self._stages is not None:
            self._stages.update(stage, done, total)
            return
        part = LINES * done // max(total, 1)
        if part > self._shown.get(stage, -1):
            self._shown[stage] = part
            self._console.print(f"{stage}: {done:,} of {total:,}", highlight=False, soft_wrap=True)
