"""Two processes with one identity, as a copied machine makes them: found and named, where a restart
is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from analyst_world import World
from simulated_parties import SimulatedNode

from shuffledp_core.errors import DuplicateIdentityError
from shuffledp_sim.system.ports import Ports


@contextlib.asynccontextmanager
async def switch(address: str, target: Callable[[], str]) -> AsyncIterator[None]:
    """Leads every connection to `address` to where `target` says just then, as a name with two
    machines does."""
    tasks: set[asyncio.Task[Any]] = set()
    writers: list[asyncio.StreamWriter] = []

    def keep(task: asyncio.Task[Any]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(2**16):
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target().rpartition(":")
        task = asyncio.current_task()
        assert task is not None
        keep(task)
        writers.append(writer)
        there = await asyncio.open_connection(host, int(port))
        writers.append(there[1])
        for pair in ((reader, there[1]), (there[0], writer)):
            keep(asyncio.ensure_future(pump(*pair)))

    host, _, port = address.rpartition(":")
    server = await asyncio.start_server(connect, host, int(port))
    try:
        yield
    finally:
        server.close()
        await asyncio.sleep(0)  # a connection that was accepted just now begins to be served
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:  # a pump that never began has closed nothing
            writer.transport.abort()


@contextlib.asynccontextmanager
async def copied_node(world: World, moved: Callable[[SimulatedNode], bool]) -> AsyncIterator[None]:
    """Node 2 and a copy of it, which gets every connection once `moved` is true of the original."""
    await world.nodes["node-2"].die()
    ports = Ports(2)
    original, copy = (
        SimulatedNode(
            world.deployment, "node-2", happened=world.happened, address=f"127.0.0.1:{port}"
        )
        for port in ports.numbers
    )
    await original.start()
    await copy.start()
    address = world.roster.party("node-2").address
    async with switch(address, lambda: (copy if moved(original) else original).address):
        yield
    await original.die()
    await copy.die()
    ports.close()


async def test_a_copy_that_is_asked_to_open_the_round_is_named(world: World) -> None:
    async with copied_node(world, lambda original: bool(original.rounds)):
        with pytest.raises(
            DuplicateIdentityError, match=r"two processes run as node-2 .*: stop one"
        ):
            await world.open()


async def test_a_copy_that_is_asked_about_an_open_round_is_named(world: World) -> None:
    async with copied_node(
        world, lambda original: any(mine.manifest for mine in original.rounds.values())
    ):
        result = await world.ended(await world.open())
        assert result.error == "DuplicateIdentityError"
        assert "two processes run as node-2" in str(result.reason)


async def test_a_node_that_is_restarted_is_no_copy(world: World) -> None:
    await world.whole_round()
    await world.nodes["node-2"].die()
    await world.nodes["node-2"].start()
    assert (await world.whole_round()).outcome == "published"
