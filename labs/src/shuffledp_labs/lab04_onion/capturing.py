"""Step E of lab 4, first half: a real round of forty users with some logging nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.signed import from_json
from shuffledp_labs.errors import LabError
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab04_onion.checks import judge_links
from shuffledp_labs.lab04_onion.rounds import SUM, USERS, AdversaryView, plain_logs

NODES: Final = 3


def real_round(attempt: CheckAttempt) -> str:
    """E-round: check the student's `link` on logs and board of a real round."""
    from shuffledp_sim.system.workplace import workplace

    honest = attempt.draws.below(NODES + 1)
    corrupt = [position for position in range(1, NODES + 1) if position != honest]
    attempt.progress(f"starting a system of {NODES} nodes; corrupt: {', '.join(map(str, corrupt))}")
    values = [attempt.draws.below(SUM.max_value + 1) for _ in range(USERS)]
    with workplace("shuffledp-lab-") as folder:  # not the student's: keys and the truth lie there
        seen = asyncio.run(capture(folder / "system", corrupt, values))
    claimed = judge_links(attempt.program.call("link", seen.logs, seen.board), seen)
    nodes = ", ".join(map(str, corrupt))
    return (
        f"{USERS} users on real nodes, {nodes} of {NODES} corrupt: {claimed} of {len(seen.board)} "
        "linked"
    )


async def capture(folder: Path, corrupt: Sequence[int], values: Sequence[int]) -> AdversaryView:
    """Play a real round of users with these values; return the corrupt nodes' view of it."""
    from shuffledp_shuffler.corruption import read_logs
    from shuffledp_sim.system.processes import LocalBudget, LocalSystem
    from shuffledp_sim.users.small_round import open_small

    budget = LocalBudget(1e9, 0.5)
    async with LocalSystem(
        folder, nodes=NODES, budget=budget, broker=False, corrupt=corrupt
    ) as system:
        small_round = await open_small(system, _plan(system.population, system.route, len(values)))
        small_round.honest += small_round.prepare_all(values)
        await small_round.send(small_round.honest)
        result = from_json((await small_round.finish()).body, Result)
        if result.board_digest is None:
            raise LabError(
                f"the round was not published, which is not your fault: {result.reason}; check "
                "again"
            )
        board = small_round.split(await small_round.board(result))
    logs = read_logs(folder / "corrupt", system.deployment.roster.deployment, small_round.round_id)
    order = list(range(len(values)))
    if (
        1 in logs and logs[1].credentials is not None
    ):  # users are numbered as they stand in node 1's spool
        places = {row.tobytes(): index for index, row in enumerate(logs[1].credentials)}
        order = [places[bytes.fromhex(prepared.claim.signer)] for prepared in small_round.honest]
    sender = {
        message: user
        for user, prepared in zip(order, small_round.honest, strict=True)
        for message in small_round.split(prepared.messages)
    }
    plain = plain_logs(logs, small_round.verified.geometry.messages_per_user)
    return AdversaryView(NODES, plain, board, [sender[message] for message in board])


def _plan(population: str, route: tuple[str, ...], users: int) -> RoundPlan:
    return RoundPlan(
        population=population,
        mechanism=SUM.kind,
        size=SUM.max_value,
        epsilon=4.0,
        delta=1e-3,
        min_reports=users,
        max_reports=users,
        route=route,
        open_seconds=120.0,
        allow_corrupt=True,  # a laboratory: the corrupt nodes say what they are
    )
