"""Rounds with corrupt nodes over real processes: everybody is traced when none is honest, nobody
while one is.

Each set of corrupt nodes starts a system of its own. That of all three plays every mechanism, and
also says what any two of them would find. With an honest node a mechanism of each sort is played: a
node hides which record is whose, whatever stands in it. The set of two around the honest node is
played in every run of the tests, the others with the slow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import aiomqtt
import pytest
from rounds_for_tests import LARGEST, USERS, quiet, small_plan, small_values

from shuffledp_adversary.tracing.trace import CapturedRound, TraceResult, load_captured, trace_round
from shuffledp_client.policy import Policy
from shuffledp_client.verification import CheckedRound, verify_round
from shuffledp_core.documents.models import Announcement
from shuffledp_core.errors import ClientPolicyRefusal, PolicyRefusal
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.transport.announce import status_topic
from shuffledp_ops.rounds.present import write_documents
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock, control_of, open_round
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.demo import keep_evidence
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.nursery import Nursery
from shuffledp_sim.system.processes import LocalBudget, LocalSystem

ALL = (1, 2, 3)
PAIRS = [
    (1, 3),
    *(pytest.param(pair, marks=pytest.mark.slow) for pair in ((1, 2), (2, 3))),
]

OF_EACH_SORT = {(spec.answers, spec.needs_crowd): kind for kind, spec in MECHANISMS.items()}
"""A histogram and a sum with noise of users, and one of each with noise of nodes."""


@pytest.fixture(scope="module", params=[ALL, *PAIRS], ids=str)
def corrupted(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    nursery: Nursery | None,
) -> Iterator[LocalSystem]:
    system = LocalSystem(
        tmp_path_factory.mktemp("corrupt"),
        nodes=3,
        budget=LocalBudget(1e9, 1e-2),
        corrupt=request.param,
        nursery=nursery,
    )
    try:
        asyncio.run(system.start())
        yield system
    finally:
        system.stop()


async def played(
    system: LocalSystem, pool: ProcessPoolExecutor, folder: Path, **changes: object
) -> tuple[RoundReport, CapturedRound]:
    """One small round with its evidence in `folder`."""
    plan, values = small_plan(system, **({"allow_corrupt": True} | changes)), small_values()
    who: list[bytes] = []
    report = await run_round(system, plan, values, pool, quiet(), StageClock(), credentials=who)
    for name in system.corrupt:  # the logs of this round only: the system plays several
        earlier = [path for path in system.logs_of(name).iterdir() if path.stem != report.round_id]
        for path in earlier:
            path.unlink()
    await keep_evidence(system, report, who, values, folder)
    keys = {
        name: (system.deployment.folder / name).read_bytes() for name in ("roster.json", "root.pub")
    }
    write_documents(report, folder, keys)
    return report, load_captured(folder)


async def traced(
    system: LocalSystem, pool: ProcessPoolExecutor, folder: Path, mechanism: str
) -> tuple[RoundReport, CapturedRound, TraceResult]:
    """A round of this mechanism, and what its corrupt nodes find."""
    size = MECHANISMS[mechanism].size_for(LARGEST)
    # Nodes' noise has ends, which use up delta in full; the rounds share one budget.
    delta = 1e-3 if MECHANISMS[mechanism].needs_crowd else 1e-6
    report, captured = await played(
        system, pool, folder, mechanism=mechanism, size=size, delta=delta
    )
    numbers = tuple(system.route.index(name) + 1 for name in system.corrupt)
    trace = trace_round(captured)
    assert report.corrupt == trace.corrupt == numbers
    assert trace.users == USERS
    assert trace.baseline == 1 / (LARGEST + 1)
    return report, captured, trace


@pytest.mark.parametrize("corrupted", [ALL], indirect=True, ids=str)
@pytest.mark.parametrize("mechanism", list(MECHANISMS))
async def test_all_users_are_traced_when_no_node_is_honest(
    corrupted: LocalSystem, pool: ProcessPoolExecutor, mechanism: str, tmp_path: Path
) -> None:
    report, captured, trace = await traced(corrupted, pool, tmp_path, mechanism)
    assert trace.traced_share == 1.0
    assert report.epsilon_here == report.final.corrupted.epsilon
    people = list(trace.people())
    assert len({person.credential for person in people}) == USERS
    assert sorted(person.value or 0 for person in people) == sorted(small_values().tolist())
    assert trace.correct == sum(person.guess == person.value for person in people)
    for honest in ALL:
        assert_nothing(trace_round(captured, set(ALL) - {honest}))


def assert_nothing(trace: TraceResult) -> None:
    assert trace.traced_share == 0.0
    assert not list(trace.people())
    assert trace.success == trace.baseline


async def test_without_the_plan_s_consent_the_analyst_opens_no_such_round(
    corrupted: LocalSystem, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    with pytest.raises(PolicyRefusal, match="corrupt by the node's own declaration"):
        await played(corrupted, pool, tmp_path, allow_corrupt=False)


async def test_a_corrupt_node_announces_itself_and_a_client_refuses_it_by_name(
    corrupted: LocalSystem,
) -> None:
    assert await statuses(corrupted) == {
        name: b"online, corrupt" if name in corrupted.corrupt else b"online"
        for name in corrupted.route
    }
    async with control_of(corrupted.deployment) as control:
        opened = await open_round(control, small_plan(corrupted, allow_corrupt=True))
        said = verify_announced(corrupted, opened.announcement, allow_corrupt=True)
        assert said.corrupt == corrupted.corrupt
        with pytest.raises(ClientPolicyRefusal, match=", ".join(corrupted.corrupt)):
            verify_announced(corrupted, opened.announcement, allow_corrupt=False)
        await control.AbortRound(
            analyst_pb2.AbortRoundRequest(round_id=opened.round_id, reason="the test is over")
        )


async def statuses(system: LocalSystem) -> dict[str, object]:
    """The retained status of every node."""
    found: dict[str, object] = {}
    assert system.broker is not None
    async with (
        asyncio.timeout(240),
        aiomqtt.Client(system.broker.host, system.broker.port) as client,
    ):
        await client.subscribe(status_topic(system.deployment.roster.deployment, "+"), qos=1)
        async for message in client.messages:
            found[message.topic.value.split("/")[-2]] = message.payload
            if len(found) == len(system.route):
                break
    return found


def verify_announced(
    system: LocalSystem, announcement: Announcement, *, allow_corrupt: bool
) -> CheckedRound:
    policy = Policy(
        epsilon=4.0, delta=1e-3, epsilon_corrupted=math.inf, allow_corrupt=allow_corrupt
    )
    return verify_round(
        announcement, system.deployment.roster, policy, system.population, system_clock()
    )


# Last, so that the system of its first set serves the tests above, too.
@pytest.mark.parametrize("corrupted", PAIRS, indirect=True, ids=str)
@pytest.mark.parametrize("mechanism", OF_EACH_SORT.values())
async def test_no_user_is_traced_while_one_node_is_honest(
    corrupted: LocalSystem, pool: ProcessPoolExecutor, mechanism: str, tmp_path: Path
) -> None:
    report, _, trace = await traced(corrupted, pool, tmp_path, mechanism)
    assert report.epsilon_here == report.final.epsilon.certified
    assert_nothing(trace)
