"""A whole local system, shared by the tests of a module that leave it running."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from commands import Shell, shell

from shuffledp_core.transport.tls import GATEWAY
from shuffledp_sim.system.nursery import Nursery, available
from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalBudget, LocalProcess, LocalSystem
from shuffledp_sim.users.sealing import sealing_pool

IMPATIENT: dict[str, dict[str, float | str]] = {
    "analyst": {
        "recovery_seconds": 3.0,
        "settle_seconds": 3.0,
        "discard_seconds": 2.0,
        "mix_timeout_seconds": 60.0,
    },
    "node": {"relay_seconds": 20.0, "workers": 1},
}
"""Bounds on how long a missing party is waited for; every test ends by an event, these only bound
the failures.

One process of a node decrypts: each more takes a third of a second of a processor to start, and the
batches of tests are small. A module with `PATIENT` or `OBSERVED` has one for each core.
"""


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery | None]:
    """The process that the parties of all systems of this session are forked from.

    Its imports cost more than all else that a system's start does."""
    if not available():
        yield None
        return
    started = Nursery(tmp_path_factory.mktemp("nursery") / "nursery.log")
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    nursery: Nursery | None,
) -> Iterator[LocalSystem]:
    """Three nodes, broker, accountant and analyst, each a process of its own, for a whole module.

    A module that restarts parties within a round sets `PATIENT = True`: they are waited for as in
    production. One that sets `OBSERVED = True` has a page of metrics at every service and logs
    everything."""
    folder = tmp_path_factory.mktemp("system")
    settings = {} if getattr(request.module, "PATIENT", False) else IMPATIENT
    observed = getattr(request.module, "OBSERVED", False)
    if observed:
        roles = ("node", "analyst", "accountant")
        settings = {role: {**settings.get(role, {}), "log_level": "debug"} for role in roles}
    local = LocalSystem(
        folder,
        nodes=3,
        budget=LocalBudget(1e9, 1e-2),
        settings=settings,
        metrics=observed,
        nursery=nursery,
    )
    try:
        asyncio.run(local.start())
        yield local
    finally:
        local.stop()


@pytest.fixture
async def system(running: LocalSystem) -> AsyncIterator[LocalSystem]:
    """The module's system; what a test has killed is started again after it."""
    yield running
    for name, process in running.processes.items():
        if not process.alive:
            process.start()
            await running.until_healthy(name)


@pytest.fixture
async def gateway(system: LocalSystem, tmp_path: Path) -> AsyncIterator[str]:
    """A gateway for devices, a process of its own, that listens: host:port."""
    with Ports(1) as ports:
        address = f"127.0.0.1:{ports.numbers[0]}"
        config = tmp_path / "gateway.toml"
        config.write_text(
            f'keys = "{system.deployment.keys_of(GATEWAY)}"\nroster = '
            f'"{system.deployment.roster_file}"\n'
            f'root_key = "{system.deployment.root_key}"\nlisten = "{address}"\nstate = '
            f'"{tmp_path / "gateway"}"\n'
            "requests_per_minute = 1000000\n"
        )
        command = ["shuffledp_client.gateway.cli", "--config", str(config)]
        process = LocalProcess("gateway", command, tmp_path / "gateway.log")
        process.start()
        try:
            await until_it_listens(address)
            yield address
            assert process.alive, process.last_words()
        finally:
            process.signal_group(15)  # type: ignore[arg-type] # SIGTERM: it stops in good order
            process.wait(10)


async def until_it_listens(address: str) -> None:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(240):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.transport.abort()
                return


@pytest.fixture
def shuffledp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """The command in this process, in the test's folder."""
    return shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Sealing processes of the fleet, for the whole session."""
    with sealing_pool() as started:
        yield started
