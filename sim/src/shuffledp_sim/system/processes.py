"""A local deployment: keys, configurations, broker, accountant, nodes and analyst as processes.

Every process is the one that is deployed for real, run by its own command line; only the addresses
are local, and what they import is imported once, by a process that they are forked from. Nothing
outlives the `LocalSystem`: each process leads its own process group, which is stopped (then killed)
on the way out, and the kernel stops it when this process dies without a way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc
import msgspec

from shuffledp_core.errors import ConfigError, UnreachableError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport.probe import ask_health
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_core.vocabulary import Role
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, Deployment, create_deployment
from shuffledp_sim.system.child import PARENT
from shuffledp_sim.system.nursery import ForkedProcess, Nursery
from shuffledp_sim.system.nursery import available as nursery_works
from shuffledp_sim.system.ports import Ports

START_SECONDS: Final = 300.0
"""Time a process may take until it reports healthy; on a healthy machine it needs about one."""

STOP_SECONDS: Final = 10.0
"""Time a process may take to stop before it is killed; above the services' own grace period."""

_POPULATION: Final = "demo"


@dataclass(frozen=True)
class LocalBudget:
    """The privacy budget that the local accountant keeps for the population."""

    epsilon: float
    delta: float


class _OwnProcess:
    """A process that is started without a fork server, as a deployed one is.

    The interface of `ForkedProcess`.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(  # noqa: S603 - our own command lines
                [sys.executable, "-m", "shuffledp_sim.system.child", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                # Ctrl-C at a terminal then reaches this process alone, which stops the others in
                # good order.
                start_new_session=True,
                env={**os.environ, PARENT: str(os.getpid())},
            )
        self.pid = self._process.pid

    def wait(self, seconds: float | None) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def kill(self) -> None:
        self._process.kill()


class LocalProcess:
    """One process of the system: a module with arguments, started by a fork server if there is one.

    Its log is a file.
    """

    def __init__(
        self, name: str, command: list[str], log: Path, nursery: Nursery | None = None
    ) -> None:
        self.name = name
        self.command = command
        self.log = log
        self._nursery = nursery
        self._process: _OwnProcess | ForkedProcess | None = None

    def start(self) -> None:
        """Start the process, or start it again; the log is appended to."""
        if self._nursery is None:
            self._process = _OwnProcess(self.command, self.log)
        else:
            self._process = self._nursery.start(self.command, self.log)

    @property
    def pid(self) -> int:
        """The process id; raises `ValueError` if the process was never started."""
        if self._process is None:
            raise ValueError(f"{self.name} is not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process is not None and not self._process.wait(0)

    def kill(self) -> None:
        """Kill only the process (SIGKILL), as a crash would; `stop` clears its group."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(None)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and all of its children."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> None:
        """Wait until the process ends, then kill the rest of its group."""
        if self._process is None:
            return
        self._process.wait(seconds)
        # Also after a clean end: workers of a process that was killed before are left in its group.
        self.signal_group(signal.SIGKILL)
        self._process.wait(None)

    def last_words(self) -> str:
        """The last line of the process's log, for error messages."""
        lines = (
            self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        )
        return lines[-1] if lines else "it left no log"


class LocalSystem:
    """A deployment with all of its processes on this machine.

    Use as an async context manager; `folder` must be new or empty.

    Args:
        folder: keys, configs, state and logs.
        nodes: number of mix nodes, "node-1".. in the order of the route.
        budget: budget of the one population, "demo".
        broker: whether to run a broker.
        settings: further configuration by role ("node", "analyst", "accountant"), seconds and the
            like.
        metrics: whether every service has a metrics page; the attribute `metrics` has its host:port
            by name.
        programs: by party name (or "broker"), replacements of its program: a module and its first
            arguments.
        corrupt: numbers of the nodes that are corrupt, from 1; their logs are in `logs_of`.
        proxied: names of parties that listen elsewhere than the roster says, so that a proxy can
            stand between them and their callers; the attribute `listens` has everyone's real
            host:port by name.
        witnesses: number of witnesses of the public log, "witness-1"..; devices then require it.
        forked: whether processes are forked from one that has imported everything (`nursery`),
            which takes half of the processor time. Their memory then counts what they share: not
            for measurements.
        nursery: one that several systems share, which its owner closes after all of them; by
            default the system has its own. Processes take their environment and limits from it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int,
        budget: LocalBudget,
        broker: bool = True,
        settings: Mapping[str, Mapping[str, float | str]] | None = None,
        metrics: bool = False,
        programs: Mapping[str, Sequence[str]] | None = None,
        corrupt: Collection[int] = (),
        proxied: Collection[str] = (),
        witnesses: int = 0,
        forked: bool = True,
        nursery: Nursery | None = None,
    ) -> None:
        names = [f"node-{number}" for number in range(1, nodes + 1)]
        watchers = [f"witness-{number}" for number in range(1, witnesses + 1)]
        self._ports = Ports(2 * nodes + 5 + len(proxied) + witnesses)
        ports = self._ports.numbers
        addresses = {
            name: f"127.0.0.1:{port}"
            for name, port in zip([*names, ANALYST, ACCOUNTANT], ports, strict=False)
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._nursery = nursery
        self._own_nursery: Nursery | None = None
        if nursery is None and forked and nursery_works():
            self._nursery = self._own_nursery = Nursery(folder / "nursery.log")
        self._settings = settings or {}
        pages = zip([*names, ANALYST, ACCOUNTANT], ports[nodes + 3 : 2 * nodes + 5], strict=True)
        first = len(ports) - witnesses
        behind = zip(sorted(proxied), ports[2 * nodes + 5 : first], strict=True)
        self.witnesses = dict(zip(watchers, ports[first:], strict=True))
        self.listens = addresses | {name: f"127.0.0.1:{port}" for name, port in behind}
        self.metrics = {name: f"127.0.0.1:{port}" for name, port in pages} if metrics else {}
        self.route = tuple(names)
        self.corrupt = tuple(names[number - 1] for number in sorted(corrupt))
        self.broker = BrokerConfig(host="127.0.0.1", port=ports[nodes + 2]) if broker else None
        self.deployment: Deployment = create_deployment(
            folder / "keys",
            addresses,
            population=_POPULATION,
            witnesses={name: f"http://127.0.0.1:{port}" for name, port in self.witnesses.items()},
        )
        self.population = _POPULATION
        self.processes: dict[str, LocalProcess] = {}
        if self.broker is not None:
            program = (programs or {}).get("broker", ["shuffledp_sim.system.broker"])
            self._add("broker", [*program, str(self.broker.port)])
        for name in self.witnesses:
            self._add(name, self._witness_command(name))
        for name, extra in {
            ACCOUNTANT: f"[populations.{_POPULATION}]\nepsilon = {budget.epsilon!r}\ndelta = "
            f"{budget.delta!r}\n",
            **dict.fromkeys(names, ""),
            ANALYST: "",
        }.items():
            config = self._write_config(name, extra)
            role = self.deployment.roster.party(name).role
            module = {"node": "shuffledp_shuffler"}.get(role, f"shuffledp_{role}")
            program = (programs or {}).get(name, [f"{module}.cli"])
            corruption = ["--corrupt", str(self.logs_of(name))] if name in self.corrupt else []
            self._add(name, [*program, "--config", str(config), *corruption])

    def logs_of(self, name: str) -> Path:
        """Log folder of a corrupt node."""
        return self.folder / "corrupt" / name

    def _add(self, name: str, module: list[str]) -> None:
        self.processes[name] = LocalProcess(
            name, module, self.folder / f"{name}.log", self._nursery
        )

    def _witness_command(self, name: str) -> list[str]:
        return [
            "shuffledp_ops.witness_cli",
            *("--name", name),
            *("--keys", str(self.deployment.keys_of(name))),
            *("--roster", str(self.deployment.roster_file)),
            *("--root-key", self.deployment.root_key),
            *("--state", str(self.folder / "state" / name)),
            *("--listen", f"127.0.0.1:{self.witnesses[name]}"),
        ]

    def _write_config(self, name: str, extra: str) -> Path:
        party = self.deployment.roster.party(name)
        lines = [
            f'name = "{name}"',
            f'keys = "keys/{name}"',
            'roster = "keys/roster.json"',
            f'root_key = "{self.deployment.root_key}"',
            f'listen = "{self.listens[name]}"',
            f'state = "state/{name}"',
            *([f'metrics = "{self.metrics[name]}"'] if name in self.metrics else []),
            *(['withdrawals = "keys/withdrawals"'] if party.role == Role.NODE else []),
            *(f"{key} = {value!r}" for key, value in self._settings.get(party.role, {}).items()),
        ]
        if self.broker is not None and name != ACCOUNTANT:
            lines += ["[broker]", f'host = "{self.broker.host}"', f"port = {self.broker.port}"]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n" + extra)
        return path

    async def start(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Start every process; return once all are healthy.

        The caller stops them, also after a failure.

        `progress` is called with the number of healthy processes, and their total.
        """
        if self._nursery is not None:
            self._nursery.begin()
            await asyncio.to_thread(self._nursery.until_ready)
        for process in self.processes.values():
            process.start()
        waiting = [asyncio.ensure_future(self.until_healthy(name)) for name in self.processes]
        try:
            for healthy, ready in enumerate(asyncio.as_completed(waiting), start=1):
                await ready
                if progress is not None:
                    progress(healthy, len(waiting))
        finally:  # one failure is enough: no one asks for those of the others
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all processes by SIGTERM, then SIGKILL; at once if waiting is interrupted."""
        try:
            for process in self.processes.values():
                # All are told before the first is waited for, so that their grace periods run side
                # by side.
                process.signal_group(signal.SIGTERM)
            for process in self.processes.values():
                process.wait(STOP_SECONDS)
        finally:
            for process in self.processes.values():
                process.wait(0)
            if self._own_nursery is not None:
                self._own_nursery.close()
            self._ports.close()

    def check_alive(self) -> None:
        """Raise `UnreachableError` with the name of the first process that has ended."""
        for process in self.processes.values():
            if not process.alive:
                raise UnreachableError(
                    f"the process {process.name} has ended: {process.last_words()}"
                )

    async def until_healthy(self, name: str) -> None:
        """Wait until a process serves; `ConfigError` with its last log line if it ends."""
        ports = dict(self.witnesses)
        if self.broker is not None:
            ports["broker"] = self.broker.port
        async with asyncio.timeout(START_SECONDS):
            while not await (
                _port_answers(ports[name]) if name in ports else self._service_answers(name)
            ):
                if not self.processes[name].alive:
                    raise ConfigError(f"{name} did not start: {self.processes[name].last_words()}")
                await asyncio.sleep(0.05)

    async def _service_answers(self, name: str) -> bool:
        roster = self.deployment.roster
        # At its own door: a proxy in front of it need not run yet.
        party = msgspec.structs.replace(roster.party(name), address=self.listens[name])
        async with channel_to(party, self.deployment.keys_of(OPERATOR), roster) as channel:
            try:
                return await ask_health(channel)
            except grpc.aio.AioRpcError:
                return False


async def _port_answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
