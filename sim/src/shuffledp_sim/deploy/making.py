"""Creation of a deployment in a folder: `shuffledp deploy init`.

* `keys/`: those of `shuffledp keys init`, with a client for each device.
* `<party>.toml`: one configuration for each party, on ports of its own.
* `device-<number>.toml`: one for each device; its policy allows the sample round.
* `gateway.toml`, `question.html`: on request, an HTTPS gateway that also serves a page.
* `state/<name>/`, `log/`, `run/`: written by the programs.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from pathlib import Path
from typing import Final

from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.config import load_config
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.codes import code_list
from shuffledp_ops.keys.enrolment import EPSILON_CORRUPTED, MESSAGES
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, Deployment, create_deployment, write_client

POPULATION: Final = "demo"

MAX_VALUE: Final = 4
EPSILON: Final = 3.0
DELTA: Final = 1e-6
"""Parameters of the sample round: a histogram of the values 0..4, possible even with a handful of
devices.
"""

BUDGET: Final = 6.5
BUDGET_DELTA: Final = 1e-5
"""Budget of the population: enough for two sample rounds. A third is refused, as it should be."""

QUESTION: Final = "question.html"

PAGE_SUITE: Final = "hpke-mlkem768-x25519"
"""Suite of a round that pages can answer: browsers have no sealed boxes."""

_FIRST_PORT, _LAST_PORT = 20_000, 32_000
"""Ports below those of outgoing connections, so that a port stays free while the deployment is
stopped.
"""

_TRIES: Final = 100


def make(folder: Path, *, devices: int, nodes: int, gateway: bool = False) -> Deployment:
    """Create a deployment in a folder, on request with a gateway, which also serves a page.

    Raises:
        ConfigError: the folder already holds something, or no ports are free.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty; choose a new folder, because a deployment is never overwritten"
        )
    names = [*(f"node-{number}" for number in range(1, nodes + 1)), ANALYST, ACCOUNTANT]
    ports = [f"127.0.0.1:{port}" for port in free_ports(2 * len(names) + 3)]
    addresses = dict(zip(names, ports, strict=False))
    pages = dict(zip(names, ports[len(names) :], strict=False))
    broker, for_devices, for_pages = ports[-3:]
    deployment = create_deployment(folder / "keys", addresses, population=POPULATION)
    for name in names:
        _write(
            folder / f"{name}.toml",
            _party(deployment, name, addresses[name], pages[name], broker),
        )
    for number in range(1, devices + 1):
        name = f"device-{number}"
        write_client(deployment.folder / "clients" / name, deployment, POPULATION)
        _write(folder / f"{name}.toml", _device(deployment, name, nodes, broker))
    if gateway:
        (folder / QUESTION).write_text(_question(deployment, nodes))
        code_list(deployment, POPULATION).touch()
        _write(folder / f"{GATEWAY}.toml", _gateway(deployment, for_devices, for_pages))
    return deployment


def sample_round(folder: Path, devices: int, *, gateway: bool = False) -> str:
    """The command of a round that every device's policy allows, and the budget covers twice.

    With a gateway, one person more may answer, on its page.
    """
    return (
        f"shuffledp round {folder}/keys --mechanism krr-histogram --max-value {MAX_VALUE} "
        f"--epsilon {EPSILON:g} --delta {DELTA:g} --min-reports {devices} "
        f"--max-reports {devices + gateway} "
        + (f"--suite {PAGE_SUITE} " if gateway else "")
        + f"--out {folder}/out"
    )


def page_address(folder: Path) -> str:
    """Address of the page that the deployment's gateway serves."""
    web = load_config(folder / f"{GATEWAY}.toml", GatewayConfig).web
    assert web is not None, "our gateways serve pages"  # noqa: S101 - for the types
    return f"http://{web.listen}/v1/web/example.html"


def free_ports(count: int) -> list[int]:
    """Find `count` consecutive unused ports of the loopback interface."""
    for _ in range(_TRIES):
        first = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT - count)
        numbers = list(range(first, first + count))
        with contextlib.suppress(OSError), contextlib.ExitStack() as sockets:
            for number in numbers:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return numbers
    raise ConfigError(
        f"found no {count} consecutive free ports between {_FIRST_PORT} and {_LAST_PORT} in "
        f"{_TRIES} tries; end programs that listen there, and try again"
    )


def _party(deployment: Deployment, name: str, listen: str, metrics: str, broker: str) -> str:
    lines = [
        f'name = "{name}"',
        *_shared(deployment, name, f"keys/{name}"),
        f'listen = "{listen}"',
        f'metrics = "{metrics}"',
    ]
    if name == ACCOUNTANT:
        return "\n".join(
            [
                *lines,
                f"[populations.{POPULATION}]",
                f"epsilon = {BUDGET:g}",
                f"delta = {BUDGET_DELTA:g}",
            ]
        )
    if name != ANALYST:
        lines.append(
            'withdrawals = "keys/withdrawals"'
        )  # where `shuffledp keys withdraw` puts the list
    return "\n".join([*lines, *_broker(broker)])


def _device(deployment: Deployment, name: str, nodes: int, broker: str) -> str:
    policy = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "epsilon_corrupted": EPSILON_CORRUPTED,
        "nodes": nodes,
        "operators": nodes,
        "messages": MESSAGES,
    }
    limits = [
        f"{key} = {value:g}" if isinstance(value, int) else f"{key} = {value!r}"
        for key, value in policy.items()
    ]
    return "\n".join(
        [*_shared(deployment, name, f"keys/clients/{name}"), *_broker(broker), "[policy]", *limits]
    )


def _gateway(deployment: Deployment, devices: str, pages: str) -> str:
    population = f"keys/enrolment/{POPULATION}"
    return "\n".join(
        [
            *_shared(deployment, GATEWAY, f"keys/{GATEWAY}"),
            f'listen = "{devices}"',
            "[web]  # plain HTTP: for a browser on this machine",
            f'listen = "{pages}"',
            f'question = "{QUESTION}"',
            "[web.enrolment]",
            f'population = "{POPULATION}"',
            f'key = "{population}"',
            f'codes = "{population}/codes"',
        ]
    )


def _question(deployment: Deployment, nodes: int) -> str:
    # JSON has no infinity: the element takes this word.
    policy = {"epsilon": EPSILON, "delta": DELTA, "epsilon_corrupted": "inf", "nodes": nodes}
    options = "".join(
        f'  <option value="{value}">{value}</option>\n' for value in range(MAX_VALUE + 1)
    )
    return (
        f'<shuffledp-question root-key="{deployment.root_key}" population="{POPULATION}"\n'
        f"    policy='{json.dumps(policy)}'>\n"
        f'  <p slot="question">How many cups of coffee did you drink today?</p>\n{options}'
        "</shuffledp-question>\n"
    )


def _shared(deployment: Deployment, name: str, keys: str) -> list[str]:
    return [
        f'keys = "{keys}"',
        'roster = "keys/roster.json"',
        f'root_key = "{deployment.root_key}"',
        f'state = "state/{name}"',
    ]


def _broker(address: str) -> list[str]:
    host, port = host_and_port(address)
    return ["[broker]", f'host = "{host}"', f"port = {port}"]


def _write(path: Path, text: str) -> None:
    path.write_text(
        f"# Made by `shuffledp deploy init`. Every key there is: deploy/config.\n\n{text}\n"
    )
