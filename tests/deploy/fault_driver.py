"""Runs inside a container of the deployment: operator and users, told what to do by JSON lines on
standard input.

Each line is {"do": NAME, ...}; each answer is one line: what happened, or {"error": class,
"reason": text}. Rounds are followed and verified with the code that every operator and every device
runs. docs: tests/deploy/faulty.py."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_client.transport import AnalystReader
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import open_deployment
from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.users.fleet import DeployedSystem, Fleet
from shuffledp_sim.users.sealing import sealing_pool, warm

LARGEST = 3
"""Values are 0 to this."""

OPERATOR = open_deployment(Path("/keys/operator"))
USERS = DeployedSystem(open_deployment(Path("/keys/fleet")), "demo", BrokerConfig(host="mosquitto"))
QUIET = Stages(Console(quiet=True))


class Driver:
    """One round after the other; `fleets` are the users of the present one."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._round = ""
        self._fleets: list[Fleet] = []
        self._truth = 0

    async def open(
        self, *, users: int, messages: int = LARGEST, seconds: float = 300.0
    ) -> dict[str, Any]:
        """Opens a round of at least 20 and at most `users` reports, of so many bits each."""
        plan = RoundPlan(
            population="demo", mechanism="rr-shuffle", size=messages, epsilon=4.0, delta=1e-3,
            min_reports=20,
            max_reports=users, route=("node-1", "node-2", "node-3"), open_seconds=seconds,
        )  # fmt: skip
        async with control_of(OPERATOR) as control:
            self._round = (await open_round(control, plan)).round_id
        self._fleets, self._truth = [], 0
        return {"round": self._round}

    async def submit(self, *, users: int, refused: bool = False) -> dict[str, Any]:
        """New users submit; with `refused` a refusal is counted, otherwise it is the answer."""
        values = np.arange(users, dtype=np.int64) % (LARGEST + 1)
        tolerated = (ShuffleDPError,) if refused else ()
        fleet = Fleet(USERS, self._round, values, self._pool, QUIET, {}, tolerated=tolerated)
        await fleet.submit()
        self._fleets.append(fleet)
        return {"receipts": fleet.accepted, "refused": dict(fleet.refused)}

    async def end(self) -> dict[str, Any]:
        """Ends the submissions."""
        async with control_of(OPERATOR) as control, translate_errors("analyst"):
            await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=self._round))
        return {}

    async def abort(self) -> dict[str, Any]:
        """Gives the round up."""
        async with control_of(OPERATOR) as control, translate_errors("analyst"):
            await control.AbortRound(
                analyst_pb2.AbortRoundRequest(round_id=self._round, reason="a test")
            )
        return {}

    async def reach(self, *, stage: str, node: str) -> dict[str, Any]:
        """Returns when the round has reached a stage at a party.

        "analyst" is nobody's name there.
        """
        async with control_of(OPERATOR) as control, translate_errors("analyst"):
            async for event in control.FollowRound(
                analyst_pb2.FollowRoundRequest(round_id=self._round)
            ):
                if event.stage in {stage, "ended"} and event.node in {node, ""}:
                    return {"stage": event.stage}
        raise ShuffleDPError("the analyst stopped reporting")

    async def finish(self, *, patiently: bool = False) -> dict[str, Any]:
        """Waits for the end; every user with a receipt verifies the board.

        `patiently`: the analyst may be away.
        """
        if patiently:
            keys, roster = USERS.deployment.keys_of(CLIENT), USERS.deployment.roster
            async with AnalystReader.of(keys, roster) as analyst:  # asks again while nobody answers
                await analyst.announcement(self._round)
        async with control_of(OPERATOR) as control, translate_errors("analyst"):
            async for event in control.FollowRound(
                analyst_pb2.FollowRoundRequest(round_id=self._round)
            ):
                if event.stage == "ended":
                    return await self._verified(Signed.from_bytes(event.result))
        raise ShuffleDPError("the analyst stopped reporting")

    async def _verified(self, signed: Signed) -> dict[str, Any]:
        result = read_result(OPERATOR, signed)
        for fleet in self._fleets:
            if fleet.accepted:
                await fleet.verify(signed)
        return {
            "accepted": result.accepted,
            "verified": sum(fleet.accepted for fleet in self._fleets),
        }


async def main() -> None:
    """Obeys until standard input ends."""
    configure_logs("error")  # to standard error
    loop = asyncio.get_running_loop()
    with sealing_pool() as pool:
        await warm(pool)
        driver = Driver(pool)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            action: Callable[..., Awaitable[dict[str, Any]]] = getattr(driver, order.pop("do"))
            try:
                answer = await action(**order)
            except ShuffleDPError as error:
                answer = {"error": type(error).__name__, "reason": str(error)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
