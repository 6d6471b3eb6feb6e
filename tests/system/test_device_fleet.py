"""Devices of the kit, half over gRPC and half over a gateway, in one round of a real system.

20 of them: about 12 s.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest
from rounds_for_tests import LARGEST, ended, small_plan

from shuffledp_client import Device, Standing
from shuffledp_core.documents.models import Result
from shuffledp_core.errors import UnknownRoundError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_ops.keys.enrolment import enrol, parse_addresses
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.system.processes import LocalSystem

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "device-kit.md"
POLICY = "[policy]\nepsilon = 5.0\ndelta = 1e-2\nepsilon_corrupted = inf\n"


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
async def test_a_fleet_of_apps_answers_over_both_ways_and_every_answer_is_on_the_board(
    system: LocalSystem, gateway: str, count: int
) -> None:
    deployment = system.deployment
    assert system.broker is not None
    bundles = []
    for way, over in {"grpc": None, "https": gateway}.items():
        text = (
            POLICY
            + parse_addresses(
                deployment, [], f"{system.broker.host}:{system.broker.port}", over
            ).settings()
        )
        names = [f"{way}-{count}-{number}" for number in range(count // 2)]
        bundles += enrol(deployment, names, population=system.population, settings=text)
    places = asyncio.Semaphore(20)  # one process stands for many machines; each has its turn
    asked: list[str] = []

    async def app(number: int, bundle: Path) -> Device:
        async with places, await Device.load(bundle) as device:
            with pytest.raises(UnknownRoundError):
                await device.check("f" * 32)
            async for question in device.questions(seconds=60, poll_seconds=1):
                asked.append(question.round_id)
                await device.answer(question, number % (question.largest + 1))
                break
        return await Device.load(bundle)

    async with control_of(deployment) as control:
        opened = await open_round(control, small_plan(system, min_reports=count, max_reports=count))
    async with asyncio.timeout(240):
        devices = await asyncio.gather(
            *(app(number, bundle) for number, bundle in enumerate(bundles))
        )
        signed = await ended(system, opened.round_id)

        async def check(device: Device) -> Standing:
            async with places:
                (checked,) = await device.check(wait=True)
                return checked.standing

        assert Counter(await asyncio.gather(*map(check, devices))) == {Standing.COUNTED: count}
    assert Counter(asked) == {opened.round_id: count}
    result = verify_from(deployment.roster.analyst, signed, Result)
    assert (result.accepted, result.dropped) == (count, 0)
    assert result.estimate is not None
    true = sum(number % (LARGEST + 1) for number in range(count))
    (total,), (error,) = result.estimate.values, result.estimate.standard_errors
    assert abs(total - true) <= 7 * error  # false alarm below 1e-11


async def test_who_is_no_device_of_the_deployment_gets_no_word_from_the_gateway(
    gateway: str,
) -> None:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:  # noqa: S501 - a stranger trusts anybody
        with pytest.raises(httpx.TransportError):
            await client.get(f"https://{gateway}/healthz")


async def test_the_app_of_the_page_takes_part_as_typed(system: LocalSystem, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "app.py").write_text(blocks[0])
    (tmp_path / "blocking.py").write_text(blocks[1])
    bundles = enrol(
        system.deployment, ["alice", "bob"], population=system.population, settings=POLICY
    )
    places = [bundle.rename(tmp_path / bundle.name) for bundle in bundles]
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system, min_reports=2, max_reports=2))
    async with asyncio.timeout(240):
        async with await Device.load(places[1]) as bob:
            await bob.answer(opened.round_id, 3)
        command = [sys.executable, "app.py", "alice.bundle"]
        done = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        said = (await done.communicate())[0].decode().splitlines()
        assert done.returncode == 0, said
        shown = re.search(
            r"^ {4}(asked: .*)\n {4}(.*)\n {4}(.*)\n {4}(.*)$", PAGE.read_text(), flags=re.MULTILINE
        )
        assert shown is not None
        for line, page in zip(said, shown.groups(), strict=True):
            assert re.sub(r"[\d.]+", "#", line) == re.sub(r"[\d.]+", "#", page)
        empty = await asyncio.create_subprocess_exec(
            sys.executable, "blocking.py", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        assert (await empty.communicate())[0] == b"()\n"
