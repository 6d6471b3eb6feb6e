"""Creation of a deployment in a folder: `shuffledp deploy init`.

* `keys/`: those of `shuffledp keys init`, with a client for each device.
* `<party>.toml`: one configuration for each party, on ports of its own.
* `device-<number>.toml`: one for each device; its policy allows the sample round.
* `state/<name>/`, `log/`, `run/`: written by the programs.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path
from typing import Final

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.addresses import host_and_port
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

_FIRST_PORT, _LAST_PORT = 20_000, 32_000
"""Ports below those of outgoing connections, so that a port stays free while the deployment is
stopped.
"""

_TRIES: Final = 100


def make(folder: Path, *, devices: int, nodes: int) -> Deployment:
    """Makes a deployment in a folder.

    Raises:
        ConfigError: the folder already holds something, or no ports are free.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty; choose a new folder, a deployment is never overwritten"
        )
    names = [*(f"node-{number}" for number in range(1, nodes + 1)), ANALYST, ACCOUNTANT]
    ports = [f"127.0.0.1:{port}" for port in free_ports(2 * len(names) + 1)]
    addresses = dict(zip(names, ports, strict=False))
    pages = dict(zip(names, ports[len(names) :], strict=False))
    deployment = create_deployment(folder / "keys", addresses, population=POPULATION)
    for name in names:
        _write(
            folder / f"{name}.toml",
            _party(deployment, name, addresses[name], pages[name], ports[-1]),
        )
    for number in range(1, devices + 1):
        name = f"device-{number}"
        write_client(deployment.folder / "clients" / name, deployment, POPULATION)
        _write(folder / f"{name}.toml", _device(deployment, name, nodes, ports[-1]))
    return deployment


def sample_round(folder: Path, devices: int) -> str:
    """The command of a round that every device's policy allows and the budget covers twice."""
    return (
        f"shuffledp round {folder}/keys --mechanism krr-histogram --max-value {MAX_VALUE} "
        f"--epsilon {EPSILON:g} --delta {DELTA:g} --min-reports {devices} --max-reports {devices} "
        f"--out {folder}/out"
    )


def free_ports(count: int) -> list[int]:
    """Find `count` consecutive unused ports of the loopback interface."""
    for _ in range(_TRIES):
        first = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT - count)
        numbers = list(range(first, first + count))
        with contextlib.suppress(OSError), contextlib.ExitStack() as sockets:
            for number in numbers:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return numbers
    raise ConfigError(f"no {count} ports in a row are free between {_FIRST_PORT} and {_LAST_PORT}")


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
        "epsilon_corrupted": EPSILON,
        "nodes": nodes,
        "operators": nodes,
        "messages": 1,
    }
    limits = [
        f"{key} = {value:g}" if isinstance(value, int) else f"{key} = {value!r}"
        for key, value in policy.items()
    ]
    return "\n".join(
        [*_shared(deployment, name, f"keys/clients/{name}"), *_broker(broker), "[policy]", *limits]
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
