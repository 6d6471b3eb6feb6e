"""Small rounds, step by step, on a running system one of whose nodes stands behind a proxy."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from rounds_for_tests import small_plan

from shuffledp_core.documents.models import Result
from shuffledp_core.runtime.keys import verify_from
from shuffledp_sim.system.nursery import Nursery
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.small_round import open_small


class Proxy:
    """Passes bytes on, and counts those towards the party behind it.

    `close` when the parties have ended.
    """

    def __init__(self, behind: str) -> None:
        self.host, _, port = behind.partition(":")
        self.port = int(port)
        self.counts: list[int] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        place = len(self.counts)
        self.counts.append(0)
        self._writers.append(writer)
        onward, back = await asyncio.open_connection(self.host, self.port)
        self._writers.append(back)
        await asyncio.gather(self._pass(reader, back, place), self._pass(onward, writer, None))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: int | None
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                if place is not None:
                    self.counts[place] += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        await asyncio.sleep(0)  # a connection that was accepted just now begins to be served
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.gather(
            *(writer.wait_closed() for writer in self._writers), return_exceptions=True
        )


async def test_a_small_round_with_given_answers_goes_through_a_proxy_in_front_of_the_entry_node(
    tmp_path: Path, nursery: Nursery | None
) -> None:
    system = LocalSystem(
        tmp_path,
        nodes=3,
        budget=LocalBudget(1e9, 1e-2),
        broker=False,
        proxied=("node-1",),
        nursery=nursery,
    )
    proxy = Proxy(system.listens["node-1"])
    roster = system.deployment.roster
    assert system.listens["node-1"] != roster.party("node-1").address
    assert system.listens["node-2"] == roster.party("node-2").address
    async with system:
        host, _, port = roster.party("node-1").address.partition(":")
        async with await asyncio.start_server(proxy.serve, host, int(port)):
            one = await open_small(
                system, small_plan(system, min_reports=11, max_reports=13, epsilon=6.0)
            )
            randomised, given = (
                one.prepare_all([0, 1, 2, 3, 0, 1]),
                one.seal_all([3, 3, 3, 0, 0, 3]),
            )
            one.honest += [*randomised, *given]
            await one.send(one.honest)
            signed = await one.finish()
            result = verify_from(roster.analyst, signed, Result)
            board = await one.board(result)
            assert result.accepted == 12
            assert all(one.complaint(signed, board, user) is None for user in range(12))
            assert [sum(message[0] for message in one.split(own.messages)) for own in given] == [
                3,
                3,
                3,
                0,
                0,
                3,
            ]
            one.honest.append(one.seal_all([1])[0])  # it was never sent
            assert type(one.complaint(signed, board, 12)).__name__ == "ReceiptMissingError"
            await proxy.close()  # before the server, which waits for its connections
    await proxy.close()  # those that were made since
    assert max(proxy.counts) > 12 * one.verified.geometry.envelope_bytes
