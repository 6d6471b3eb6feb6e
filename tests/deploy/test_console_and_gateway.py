"""The two overlays that people meet first: the live page, and the door for devices without gRPC.

About 40 s.
"""

import asyncio
import http.client
from contextlib import closing
from pathlib import Path

import pytest
from composed import START_SECONDS, USERS, Composed, FirstRound, run, until

from shuffledp_client import Device, Standing

pytestmark = pytest.mark.docker


def ask(
    deployment: Composed, path: str, method: str = "GET", host: str = "localhost"
) -> tuple[int, str, str]:
    """One request of the console's: status, content security policy, body."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", int(deployment.environment["CONSOLE_PORT"]), 30)
    ) as console:
        console.request(method, path, headers={"Host": host})
        answer = console.getresponse()
        return (
            answer.status,
            answer.getheader("Content-Security-Policy", ""),
            answer.read().decode(),
        )


def test_the_console_shows_a_round_and_its_budget_to_whoever_opens_it_and_lets_nobody_operate(
    deployment: Composed, first_round: FirstRound
) -> None:
    round_id = first_round.result["round_id"]
    until(lambda: f"/rounds/{round_id}/" in ask(deployment, "/")[2], "the console lists the round")
    status, policy, page = ask(deployment, "/")
    assert status == 200
    assert "default-src 'none'" in policy
    assert "demo" in page
    assert "/open" not in page
    status, _, page = ask(deployment, f"/rounds/{round_id}/")
    assert (status, "guarantee" in page) == (200, True)
    status, _, certificate = ask(deployment, f"/rounds/{round_id}/certificate.json")
    assert (status, certificate) == (
        200,
        (first_round.documents / "certificate.json").read_text().rstrip("\n"),
    )
    assert ask(deployment, "/sign-in?key=x")[0] == 404
    assert ask(deployment, "/rounds/", "POST")[0] == 403
    assert ask(deployment, "/", host="attacker.example")[0] == 421


async def test_a_device_of_the_kit_answers_through_the_gateways_container(
    deployment: Composed, tmp_path: Path
) -> None:
    """Its bundle says where gateway and broker are, and nothing else: it could not find the parties
    themselves."""
    ports = deployment.environment
    deployment.until_healthy("gateway")
    enrol = ("--profile", "operator", "run", "--rm", "-T")
    where = [
        f"--gateway=127.0.0.1:{ports['GATEWAY_PORT']}",
        f"--broker=127.0.0.1:{ports['BROKER_PORT']}",
    ]
    deployment.compose(*enrol, "enrol", "keys", "enrol", "/keys", "kit", *where)
    bundle = tmp_path / "kit.bundle"
    bundle.write_text(
        deployment.compose(*enrol, "--entrypoint", "cat", "enrol", "/keys/clients/kit.bundle")
    )
    with deployment.making("round", USERS=str(USERS + 1), MECHANISM="krr-histogram") as asked:
        async with await Device.load(bundle) as device:
            async for question in device.questions(seconds=START_SECONDS):
                answered = await device.answer(question, 3)
                break
            (checked,) = await device.check(wait=True)
        printed, errors = await asyncio.to_thread(asked.communicate)
    assert asked.returncode == 0, errors
    assert answered.entry == "node-1"
    assert checked.standing is Standing.COUNTED
    assert f"The answer: histogram over {USERS + 1:,} users" in " ".join(printed.split())
    said = deployment.logs(deployment.container("gateway"))
    assert question.round_id not in said, "no line names a round"
    run(
        [
            "docker",
            "exec",
            deployment.container("gateway"),
            "python",
            "-m",
            "shuffledp_client.gateway.probe",
            "/keys/config.toml",
        ]
    )
