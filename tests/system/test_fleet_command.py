"""`shuffledp fleet`: users of a deployment whose processes run elsewhere.

About 20 seconds on two cores.
"""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest
from rounds_for_tests import USERS, small_plan, within_a_minute

from shuffledp_core.errors import UsageError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.play import parse_broker

Line = dict[str, Any]


async def fleet(system: LocalSystem, *options: str) -> Process:
    command = [
        sys.executable,
        "-m",
        "shuffledp.cli",
        "fleet",
        str(system.deployment.folder),
        *options,
    ]
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


def broker_of(system: LocalSystem) -> tuple[str, str]:
    assert system.broker is not None
    return "--broker", f"{system.broker.host}:{system.broker.port}"


async def open_small(system: LocalSystem, **changes: object) -> str:
    async with control_of(system.deployment) as control:
        return (await open_round(control, small_plan(system, **changes))).round_id


async def next_line(process: Process, event: str) -> Line:
    assert process.stderr is not None
    while data := await process.stderr.readline():
        line: Line = json.loads(data)
        if line["event"] == event:
            return line
    raise AssertionError(f"the fleet ended without {event!r}")


async def test_several_fleets_fill_one_round_and_those_beyond_it_are_refused(
    system: LocalSystem,
) -> None:
    round_id = await open_small(system)
    fleets = [
        await fleet(system, "--once", "--users", "30", *options)
        for options in (broker_of(system), ("--offset", "30", "--max-value", "2"))
    ]
    lines = [await within_a_minute(next_line(one, "round verified")) for one in fleets]
    assert [await within_a_minute(one.wait()) for one in fleets] == [0, 0]
    assert {line["round"] for line in lines} == {round_id}
    assert sum(line["accepted"] for line in lines) == USERS
    assert sum(sum(line["refused"].values()) for line in lines) == 60 - USERS


async def test_a_fleet_caps_its_values_to_the_round_and_says_so(
    system: LocalSystem, tmp_path: Path
) -> None:
    await open_small(system)
    file = tmp_path / "values.csv"
    file.write_text("value\n" + "1\n" * 10 + "9\n" * 5 + "2\n" * (USERS - 5))
    one = await fleet(
        system, "--once", "--users", str(USERS), "--offset", "10", "--data", str(file)
    )
    line = await within_a_minute(next_line(one, "round verified"))
    assert await one.wait() == 0
    assert (line["accepted"], line["capped"], line["largest"]) == (USERS, 5, 3)


async def test_a_fleet_takes_part_in_round_after_round_until_it_is_told_to_stop(
    system: LocalSystem,
) -> None:
    one = await fleet(system, "--users", str(USERS), *broker_of(system))
    await within_a_minute(next_line(one, "simulated users wait for a round"))
    for _ in range(2):
        round_id = await open_small(system)
        line = await within_a_minute(next_line(one, "round verified"))
        assert (line["round"], line["accepted"], line["refused"]) == (round_id, USERS, {})
    one.send_signal(signal.SIGTERM)
    _, rest = await within_a_minute(one.communicate())
    assert one.returncode == 0
    assert b"Traceback" not in rest


async def test_a_failed_round_is_the_exit_code_of_a_fleet_for_one_round(
    system: LocalSystem,
) -> None:
    round_id = await open_small(system)
    one = await fleet(system, "--once", "--users", str(USERS - 1))
    async with control_of(system.deployment) as control, translate_errors("analyst"):
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "accepting" and event.done == USERS - 1:
                await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=round_id))
                break
    _, errors = await within_a_minute(one.communicate())
    assert one.returncode == 1
    assert "39" in errors.decode().splitlines()[-1]
    assert b"Traceback" not in errors


async def test_a_fleet_for_one_round_that_is_stopped_before_says_so(system: LocalSystem) -> None:
    one = await fleet(system, "--once", "--users", "5")
    await within_a_minute(next_line(one, "simulated users wait for a round"))
    one.send_signal(signal.SIGTERM)
    _, errors = await within_a_minute(one.communicate())
    assert one.returncode == 1
    assert "before the round had ended" in errors.decode()


@pytest.mark.parametrize("text", ["", ":1883", "host:x", "host:0", "host:70000"])
def test_a_broker_that_is_no_address_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_broker(text)
