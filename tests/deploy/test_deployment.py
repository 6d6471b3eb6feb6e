"""`make up`, `make round`, `make down` for real, with Prometheus and four fleets.

Needs an engine; about 60 s.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from composed import FLEETS, USERS, USERS_OF_A_FLEET, WITH_PAGES, Composed, FirstRound, run
from test_compose_files import LISTENING, MEETINGS, NODES

pytestmark = pytest.mark.docker

SERVICES = (*NODES, "analyst", "accountant")
SOURCES = (*SERVICES, "fleet")


def test_make_round_prints_the_answer_and_its_guarantee_for_a_thousand_users_of_four_fleets(
    deployment: Composed, first_round: FirstRound
) -> None:
    assert f"The answer: sum over {USERS:,} users" in first_round.printed
    assert "The guarantee, signed by the accountant" in first_round.printed
    run(
        [
            sys.executable,
            "-m",
            "shuffledp.cli",
            "verify",
            str(first_round.documents / "certificate.json"),
        ]
    )
    assert first_round.result["accepted"] == USERS
    pattern = f"{first_round.result['round_id']}.*round verified"
    verified = [
        json.loads(deployment.until_logged(fleet, pattern))
        for fleet in deployment.containers("fleet")
    ]
    assert [word["accepted"] for word in verified] == [USERS_OF_A_FLEET] * FLEETS


@pytest.mark.parametrize(
    "service", [*SERVICES, "mosquitto", "fleet", "prometheus", "gateway", "console"]
)
def test_a_container_is_nobody_that_can_write_only_where_it_keeps_things(
    deployment: Composed, service: str
) -> None:
    state = deployment.inspect(service)
    assert state["Config"]["User"].split(":")[0] not in {"", "0", "root"}
    assert state["HostConfig"]["ReadonlyRootfs"] is True
    assert state["HostConfig"]["Memory"] > 0
    assert state["State"].get("Health", {"Status": "healthy"})["Status"] == "healthy"
    writable = {mount["Destination"] for mount in state["Mounts"] if mount["RW"]}
    assert writable <= {"/state", "/mosquitto/data", "/prometheus"}
    assert not [one for one in state["Config"]["Env"] or () if "PASSWORD" in one or "KEY" in one]


CONNECT = """
import json, socket
from concurrent.futures import ThreadPoolExecutor
def reached(address):
    try:
        socket.create_connection(tuple(address), 3).close()
        return True
    except OSError:
        return False
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(reached, {addresses}))))
"""


def reached(deployment: Composed, services: Sequence[str], port: int) -> dict[str, set[str]]:
    """Whom of these each party reaches at a port, by address: so it is the networks that forbid it,
    not only the names.

    Every address of a service counts, its own among them.
    """
    targets = [
        (name, network["IPAddress"])
        for name in services
        for network in deployment.inspect(name)["NetworkSettings"]["Networks"].values()
    ]
    code = CONNECT.format(addresses=[(host, port) for _, host in targets])

    def whom(source: str) -> set[str]:
        answers = json.loads(deployment.python(source, code))
        return {name for (name, _), answer in zip(targets, answers, strict=True) if answer}

    with ThreadPoolExecutor(len(SOURCES)) as pool:
        return dict(zip(SOURCES, pool.map(whom, SOURCES), strict=True))


def test_a_party_reaches_whom_it_may_and_nobody_else(deployment: Composed) -> None:
    services, broker = reached(deployment, SERVICES, 7000), reached(deployment, ["mosquitto"], 1883)
    for source in SOURCES:
        met = (services[source] | broker[source]) - {source}
        assert met == {name for name in LISTENING if frozenset((source, name)) in MEETINGS}, source


def test_a_page_of_metrics_is_read_by_nobody_but_who_shares_its_network(
    deployment: Composed,
) -> None:
    pages = reached(deployment, SERVICES, 9100)
    assert pages == {
        "fleet": set(),
        **{node: {node} for node in NODES},
        "analyst": {*NODES, "analyst", "accountant"},
        "accountant": {"analyst", "accountant"},
    }


def test_the_engine_lets_nothing_out_of_any_network(deployment: Composed) -> None:
    """What the engine made of them.

    It keeps a default route in an internal network, and drops what goes there.

    The one of the published dashboards has nobody in it but Prometheus; the doors outside translate
    no address."""
    mine = ["--filter", f"label=com.docker.compose.project={deployment.project}"]
    networks = json.loads(
        run(
            ["docker", "network", "inspect", *run(["docker", "network", "ls", "-q", *mine]).split()]
        )
    )
    assert len(networks) == (17 if WITH_PAGES else 15)
    outside = {one["Name"]: one["Options"] for one in networks if not one["Internal"]}
    doors = {
        f"{deployment.project}_{name}"
        for name in ("devices", "gateway", "console", *(["pages"] if WITH_PAGES else []))
    }
    assert set(outside) == {f"{deployment.project}_dashboards", *doors}
    assert {outside[name]["com.docker.network.bridge.enable_ip_masquerade"] for name in doors} == {
        "false"
    }


def test_a_device_outside_is_enrolled_and_reaches_the_deployment_by_what_its_bundle_says(
    deployment: Composed, tmp_path: Path
) -> None:
    ports = {name: deployment.environment[name] for name in ("NODE_1_PORT", "ANALYST_PORT")}
    where = [
        f"--address={name}=127.0.0.1:{ports[port]}"
        for name, port in {"node-1": "NODE_1_PORT", "analyst": "ANALYST_PORT"}.items()
    ]
    enrol = ("--profile", "operator", "run", "--rm", "-T")
    deployment.compose(*enrol, "enrol", "keys", "enrol", "/keys", "phone", *where)
    bundle = tmp_path / "phone.bundle"
    bundle.write_text(
        deployment.compose(*enrol, "--entrypoint", "cat", "enrol", "/keys/clients/phone.bundle")
    )
    client = [sys.executable, "-m", "shuffledp_client.cli"]
    run([*client, "import", str(bundle), str(tmp_path / "phone")])
    config = str(tmp_path / "phone" / "client.toml")
    command = [*client, "submit", "--config", config, "--value", "1", "--round", "0" * 32]
    said = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert said.returncode == 1
    assert "0" * 32 in said.stderr  # the analyst's own word: it knows no such round
    assert "UNAVAILABLE" not in said.stderr


def test_devices_outside_only_read_at_the_broker(deployment: Composed) -> None:
    """Inside, what is published at the outer door never arrives.

    What is published at the inner one does, at both.
    """
    (broker,) = deployment.containers("mosquitto")
    topic = ["-t", "shuffledp/v1/test"]

    def publish(port: str, *message: str) -> None:
        run(
            [
                "docker",
                "exec",
                broker,
                "mosquitto_pub",
                "-p",
                port,
                "-q",
                "1",
                "-r",
                *topic,
                *message,
            ]
        )

    publish("1883", "-m", "inside")
    publish("1884", "-m", "outside")
    for port in ("1883", "1884"):
        heard = run(
            ["docker", "exec", broker, "mosquitto_sub", "-p", port, *topic, "-C", "1", "-W", "10"]
        )
        assert heard.strip() == "inside"
    publish("1883", "-n")


def test_a_verified_round_in_containers_can_be_checked_from_what_is_published(
    deployment: Composed,
) -> None:
    result = deployment.round(
        "--mechanism", "krr-histogram", "--max-value", "7", "--epsilon", "4", "--mix", "verified"
    )
    assert result["accepted"] == USERS_OF_A_FLEET
    checked = run([sys.executable, "-m", "shuffledp.cli", "verify", f"out/{result['round']}"])
    assert f"mixing: {USERS_OF_A_FLEET} claims on the list of node-1" in checked


def test_make_rotate_renews_all_certificates_during_a_round_and_restarts_nothing(
    deployment: Composed,
) -> None:
    address = f"127.0.0.1:{deployment.environment['NODE_1_PORT']}"
    started = "{{.Name}} {{.State.StartedAt}}"
    containers = deployment.compose("ps", "--quiet").split()
    before = shown_certificate(address), run(["docker", "inspect", "-f", started, *containers])
    with deployment.making("round") as round_:
        deployment.make("rotate")
        printed, errors = round_.communicate()
    assert round_.returncode == 0, f"{printed}\n{errors}"
    after = shown_certificate(address), run(["docker", "inspect", "-f", started, *containers])
    assert after[0] != before[0]
    assert after[1] == before[1]
    deployment.make("round")


def shown_certificate(address: str) -> str:
    """The certificate that a server shows, as PEM; the handshake then ends for want of ours."""
    command = ["openssl", "s_client", "-connect", address, "-alpn", "h2"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    start = done.stdout.index("-----BEGIN CERTIFICATE-----")
    return done.stdout[start : done.stdout.index("-----END CERTIFICATE-----")]


def test_starting_again_keeps_every_key(deployment: Composed) -> None:
    read = "import pathlib; print(pathlib.Path('/keys/roster.json').read_text())"
    before = deployment.python("node-1", read)
    deployment.compose("run", "--rm", "keys")
    assert deployment.python("node-1", read) == before
    assert deployment.python("fleet", read) == before


def test_make_down_leaves_nothing(deployment: Composed) -> None:
    """The last one: afterwards there is no deployment."""
    deployment.make("down")
    label = f"label=com.docker.compose.project={deployment.project}"
    for listed in (["container", "ls", "--all"], ["network", "ls"], ["volume", "ls"]):
        assert run(["docker", *listed, "--quiet", "--filter", label]) == "", (
            f"make down leaves something: {listed}"
        )
