"""A node's open accusation, until a transcript ends it: docs/mixing.md, "Blame"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shuffledp_core.errors import NodeFault, RoundStateError, ShuffleDPError, UnansweredError
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.runtime.tasks import in_thread


class TranscriptExchange:
    """Rendezvous of the mixing task, which waits for a transcript, and the call that brings one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._brought: asyncio.Queue[tuple[Transcript, asyncio.Future[None]]] = asyncio.Queue()
        self.accused = 0
        """Number of records that wait to be traced; 0: nothing waits."""

    def require_open(self) -> None:
        """Raise `RoundStateError` if no task waits for a transcript."""
        if not self.accused:
            raise RoundStateError("this node has no open accusation")

    async def take(self, transcript: Transcript) -> None:
        """Pass a transcript to the waiting task; return once it has ended the accusation.

        Raises:
            RoundStateError: there is no open accusation.
            ShuffleDPError: an error of `Receiver.settle`.
        """
        self.require_open()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._brought.put_nowait((transcript, done))
        await done

    async def wait_for_transcript(self, hop: Hop, accused: int, patience: float) -> Transcript:
        """Wait at most `patience` seconds for the transcript that ends the accusation.

        A damaged or incomplete transcript does not end the wait, because another one may come.

        Raises:
            UnansweredError: none came in time.
            BadBlameError, TooFewReportsError: the transcript shows that nothing may leave this
                node.
        """
        self._show(accused)
        try:
            async with asyncio.timeout(patience):
                return await self._first_that_stands(hop)
        except TimeoutError as error:
            raise UnansweredError(
                f"no answer: {accused} records failed to decrypt on this node, and no transcript "
                f"that traces all of them to users arrived within {patience:g} s"
            ) from error
        finally:
            self._show(0)
            while not self._brought.empty():
                self._answer(
                    self._brought.get_nowait()[1],
                    RoundStateError("the accusation has already been settled"),
                )

    async def _first_that_stands(self, hop: Hop) -> Transcript:
        while True:
            transcript, done = await self._brought.get()
            try:
                await in_thread(hop.settle, transcript)
            except UnansweredError as error:
                self._answer(done, error)
                continue
            except ShuffleDPError as error:
                self._answer(done, error)
                raise
            except (
                asyncio.CancelledError
            ):  # the time is up, or the round is given up: whoever brought it hears so
                self._answer(
                    done, RoundStateError("the accusation ended before this transcript was judged")
                )
                raise
            except (
                Exception
            ) as error:  # a bug, or no memory left: the round fails of it, and no one waits on
                self._answer(
                    done,
                    NodeFault(f"unexpected failure ({type(error).__name__}); see the node's log"),
                )
                raise
            self._show(0)
            self._answer(done, None)
            return transcript

    @staticmethod
    def _answer(done: asyncio.Future[None], error: ShuffleDPError | None) -> None:
        if done.done():  # its caller has hung up
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def _show(self, accused: int) -> None:
        self.accused = accused
        self._changed()
