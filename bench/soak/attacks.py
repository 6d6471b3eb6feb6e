"""Attacks on the system, in waves: each attack is a function that is run repeatedly.

`python -m bench.soak.attacks FOLDER NAME...` runs them against the system in the folder until it is
stopped. It is a separate process, so that the work of attacking does not slow down the honest
devices. It prints the name of each wave.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_ops.keys.pki import open_deployment
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.hostile.callers import GET_BOARD, GET_RESULT, Devices, silent_connections
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.users.fleet import DeployedSystem

HOLD_SECONDS: Final = 12.0
"""Seconds for which an attack holds what it got: longer than the services' patience."""

BOARD_BYTES: Final = 4 * 2**20

BROKER: Final = "broker"
NODE: Final = "node"


class Siege:
    """A running system under attack: its keys, and the round with a large board to request."""

    def __init__(self, folder: Path) -> None:
        self.deployment = open_deployment(folder / "keys")
        self.board = _large_board(folder)

    def devices(self, name: str, source: str) -> Devices:
        """Devices without a credential that attack this party from the address `source`."""
        return Devices(self.deployment, self.deployment.roster.party(name), source)


def _large_board(system: Path) -> str:
    """Create a published board of some mebibytes in the analyst's records, as large rounds do."""
    round_id = secrets.token_hex(16)
    folder = system / "state" / "analyst" / "rounds" / round_id
    folder.mkdir(parents=True)
    (folder / "finished").touch()
    (folder / "result.json").write_bytes(bytes(2**14))
    (folder / "board").write_bytes(bytes(BOARD_BYTES))
    return round_id


def _wave(name: str) -> None:
    print(name, flush=True)


async def stuck_readers(siege: Siege) -> None:
    """Open 800 calls for a board and 400 for a result, and never read the answers."""
    devices = siege.devices("analyst", "127.0.0.2")
    async with (
        devices.stuck_readers(siege.board, 800, GET_BOARD),
        devices.stuck_readers(siege.board, 400, GET_RESULT),
    ):
        _wave("readers")
        await asyncio.sleep(HOLD_SECONDS)


async def unfinished(siege: Siege) -> None:
    """Keep 500 first messages without their last byte open at the entry node and the analyst."""
    node = siege.devices("node-1", "127.0.0.3")
    analyst = siege.devices("analyst", "127.0.0.3")
    async with (
        node.unfinished_messages(500, CHUNK_BYTES),
        analyst.unfinished_messages(500, CHUNK_BYTES, GET_BOARD),
    ):
        _wave("unfinished")
        await asyncio.sleep(HOLD_SECONDS)


async def unbacked(siege: Siege) -> None:
    """Send 500 envelopes with unsigned documents."""
    async with siege.devices("node-1", "127.0.0.4").unbacked_envelopes("0" * 32, 500, CHUNK_BYTES):
        _wave("unbacked")
        await asyncio.sleep(HOLD_SECONDS)


async def silent_calls(siege: Siege) -> None:
    """Open 1,500 calls that send nothing, to the entry node and to the analyst."""
    node = siege.devices("node-1", "127.0.0.5")
    analyst = siege.devices("analyst", "127.0.0.5")
    async with node.silent_calls(1500), analyst.silent_calls(1500, method=GET_BOARD):
        _wave("silent")
        await asyncio.sleep(HOLD_SECONDS)


async def strangers(siege: Siege) -> None:
    """Open 2,500 connections that send nothing, to the entry node and to the analyst."""
    entry, analyst = (siege.deployment.roster.party(name).address for name in ("node-1", "analyst"))
    with (
        silent_connections(entry, 2500, "127.0.0.6"),
        silent_connections(analyst, 2500, "127.0.0.6"),
    ):
        _wave("strangers")
        await asyncio.sleep(HOLD_SECONDS)


async def hostile_node(siege: Siege) -> None:
    """Open rounds over a node that fails each with a reason of more than a mebibyte."""
    system = DeployedSystem(siege.deployment, "demo", None)
    plan = LoadOptions(users=10, mechanism="rr-shuffle", max_value=3, epsilon=4.0, delta=1e-3).plan(
        system
    )
    async with control_of(siege.deployment) as control:
        with suppress(ShuffleDPError):
            await open_round(control, plan)  # over all nodes: the last one is the malicious one
            _wave("node")
    await asyncio.sleep(HOLD_SECONDS)


async def hostile_broker(_: Siege) -> None:
    """Do nothing: the broker attacks by itself (bench/soak/hostile_broker.py)."""
    _wave("broker")
    await asyncio.sleep(HOLD_SECONDS)


ATTACKS: Final[dict[str, Callable[[Siege], Awaitable[None]]]] = {
    "readers": stuck_readers,
    "unfinished": unfinished,
    "unbacked": unbacked,
    "silent": silent_calls,
    "strangers": strangers,
    BROKER: hostile_broker,
    NODE: hostile_node,
}


async def _again(attack: Callable[[Siege], Awaitable[None]], siege: Siege) -> None:
    while True:
        try:
            await attack(siege)
        except (OSError, ShuffleDPError):  # it was thrown out; it comes back
            await asyncio.sleep(0.1)


async def main() -> None:
    """Attack until the process is stopped."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    siege = Siege(Path(sys.argv[1]))
    await asyncio.gather(*(_again(ATTACKS[name], siege) for name in sys.argv[2:]))


if __name__ == "__main__":
    asyncio.run(main())
