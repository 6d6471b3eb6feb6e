"""The device kit for programs without an event loop: the same methods, each of which waits until it is done."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from shuffledp_client.kit import Device
from shuffledp_client.outcomes import Answered, Checked, Question


class BlockingDevice:
    """A `Device` in an event loop of its own. Use as a context manager. Not from inside a running event loop.

    Args:
        place: as for `Device.load`.
        folder: as for `Device.load`.
    """

    def __init__(self, place: str | os.PathLike[str], *, folder: Path | None = None) -> None:
        self._closed = False
        self._runner = asyncio.Runner()
        try:
            self._device = self._runner.run(Device.load(place, folder=folder))
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends connections and event loop. Safe to call twice."""
        if not self._closed:
            self._closed = True
            with self._runner as runner:
                runner.run(self._device.close())

    def question(self, round_id: str | None = None) -> Question:
        """See `Device.question`."""
        return self._runner.run(self._device.question(round_id))

    def answer(self, question: Question | str, value: int) -> Answered:
        """See `Device.answer`."""
        return self._runner.run(self._device.answer(question, value))

    def pending(self) -> tuple[str, ...]:
        """See `Device.pending`."""
        return self._device.pending()

    def check(self, round_id: str | None = None, *, wait: bool = False) -> tuple[Checked, ...]:
        """See `Device.check`."""
        return self._runner.run(self._device.check(round_id, wait=wait))
