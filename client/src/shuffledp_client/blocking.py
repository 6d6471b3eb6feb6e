"""The device kit for programs without an event loop: blocking methods, without `questions`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from shuffledp_client.evidence import Evidence
from shuffledp_client.kit import Device
from shuffledp_client.outcomes import Answered, Checked, Question

FoundT = TypeVar("FoundT")


class BlockingDevice:
    """A `Device` in its own event loop. Use as a context manager.

    Not from inside a running event loop.

    Args:
        place: see `Device.load`.
        folder: see `Device.load`.

    Raises:
        RuntimeError: this or a method was called from inside a running event loop, where one awaits
            a `Device`.
        ValueError: a method was called after `close`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None
    ) -> None:
        self._closed = False
        self._runner = asyncio.Runner()
        try:
            self._device = self._wait(lambda: Device.load(path, folder=folder))
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End connections and event loop. Safe to call twice."""
        if not self._closed:
            self._closed = True
            with self._runner as runner:
                runner.run(self._device.close())

    def question(self, round_id: str | None = None) -> Question:
        """See `Device.question`."""
        return self._wait(lambda: self._device.question(round_id))

    def answer(self, question: Question | str, value: int) -> Answered:
        """See `Device.answer`."""
        return self._wait(lambda: self._device.answer(question, value))

    def pending(self) -> tuple[str, ...]:
        """See `Device.pending`."""
        return self._device.pending()

    def check(self, round_id: str | None = None, *, wait: bool = False) -> tuple[Checked, ...]:
        """See `Device.check`."""
        return self._wait(lambda: self._device.check(round_id, wait=wait))

    def evidence(self, round_id: str) -> tuple[Evidence, bytes]:
        """See `Device.evidence`."""
        return self._wait(lambda: self._device.evidence(round_id))

    def _wait(self, call: Callable[[], Coroutine[Any, Any, FoundT]]) -> FoundT:
        """Run the coroutine that `call` makes, after checking that blocking is allowed here."""
        if self._closed:
            raise ValueError("this device is closed; load it again")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._runner.run(call())
        raise RuntimeError(
            "a BlockingDevice waits, and would stop the event loop that runs here: await a Device "
            "in it"
        )
