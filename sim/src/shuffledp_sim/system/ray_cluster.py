"""A Ray cluster on this machine: head and workers as processes, with TLS and a token.

For tests and the bench. Ray, which is no dependency of this package, must be installed beside it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from shuffledp_core.errors import NodeFault
from shuffledp_core.runtime.files import write_new
from shuffledp_ops.keys.authority import Authority, pem
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_sim.system.ports import Ports

WORKERS: Final = 2
"""Machines beside the head."""

START_SECONDS = 180


@dataclass
class RayNode:
    """One `ray start --block`, and all processes that it started."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_joined(self, deadline: float) -> bool:
        """True once the node belongs to the cluster; False if its raylet has ended."""
        seen = False
        while b"Ray runtime started" not in self.log.read_bytes():
            if time.monotonic() > deadline:
                raise NodeFault(
                    f"Ray did not start in {START_SECONDS} seconds: {self.log.read_text()}"
                )
            seen, before = self.raylet() is not None, seen
            if self.process.poll() is not None or (before and not seen):
                return False
            time.sleep(0.1)
        return True

    def raylet(self) -> int | None:
        """The process id of the raylet; None if it is not running."""
        with contextlib.suppress(FileNotFoundError):
            for pid in (
                Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
                .read_text()
                .split()
            ):
                name, state = Path(f"/proc/{pid}/stat").read_text().split(")")[0:2]
                if name.endswith("(raylet") and state.split()[0] != "Z":
                    return int(pid)
        return None

    def kill(self) -> None:
        """End the node as a power cut would: the raylet first, then the rest of its group."""
        if (raylet := self.raylet()) is not None:
            os.kill(raylet, signal.SIGKILL)
        self.end()

    def processor_seconds(self) -> float:
        """Processor time of all processes of the node so far, with ended ones."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.process.pid:
                    ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End all processes of the node."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class RayCluster:
    """A head without processors, as next to a mix node, and workers with one processor each."""

    folder: Path
    ip: str
    store: int = 150 * 2**20
    """Bytes of the memory in which each machine keeps what others may want."""
    beside: int = WORKERS
    """Workers that `whole` starts."""
    program: Path = Path(sys.executable).parent / "ray"
    """Of which release of Ray its machines are."""
    direct: int = 1000
    """Smaller results come with the answer and are not kept. Ray's default is 102,400; small
    batches have no larger.
    """
    head: RayNode | None = None
    workers: list[RayNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ports = Ports(1)
        self.address = f"{self.ip}:{self._ports.numbers[0]}"
        now = dt.datetime.now(dt.UTC)
        authority = Authority.create("ray", now)
        (self.folder / "tls").mkdir(parents=True)
        authority.issue(self.folder / "tls", "ray", (self.ip,), now)
        (self.folder / "ca.pem").write_bytes(pem(authority.certificate))
        self.token = self.folder / "token"
        write_new(self.token, secrets.token_hex(32).encode())

    def engine(self, **changes: Any) -> EngineConfig:
        """The table `[engine]` of a node's configuration that uses this cluster."""
        fields: dict[str, Any] = {
            "token": self.token,
            "certificate": self.folder / "tls" / "tls.pem",
            "key": self.folder / "tls" / "tls-key.pem",
            "authority": self.folder / "ca.pem",
        }
        fields |= {
            "kind": "ray",
            "address": self.address,
            "task_memory": 2**20,
            "wait_seconds": 30.0,
        }
        return EngineConfig(**(fields | changes))

    def start_missing(self) -> None:
        """Start the head and the workers that do not run."""
        if self.head is None or self.head.process.poll() is not None:
            self.close()
            port = self.address.rpartition(":")[2]
            self.head = self._start_joined(
                "--head", "--port", port, "--num-cpus", "0", "--include-dashboard=false"
            )
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        while (
            len(self.workers) < self.beside
        ):  # one after another: two at once may choose one name for their sockets
            self.workers.append(self._start_joined("--address", self.address, "--num-cpus", "1"))

    def machines(self) -> list[RayNode]:
        """The workers, and the head."""
        return [*self.workers, *([] if self.head is None else [self.head])]

    def close(self) -> None:
        """End all processes of the cluster."""
        for node in self.machines():
            node.end()
        self.workers, self.head = [], None

    def _start_joined(self, *options: str) -> RayNode:
        deadline = time.monotonic() + START_SECONDS
        while True:
            node = self._start(*options)
            try:
                if node.wait_joined(deadline):
                    return node
            except BaseException:
                node.end()
                raise
            # Ray gives its agent 15 seconds to start, which a machine with much to do does not keep
            node.end()

    def _start(self, *options: str) -> RayNode:
        log = self.folder / f"{secrets.token_hex(4)}.log"
        command = [str(self.program), "start", "--block", "--disable-usage-stats", *options]
        command += ["--node-ip-address", self.ip, "--object-store-memory", str(self.store)]
        if "--head" in options:  # short: sockets are in it, whose names may have 107 bytes
            command += ["--temp-dir", str(self.folder / "r")]
        environment = os.environ | {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(self.folder / "tls" / "tls.pem"),
            "RAY_TLS_SERVER_KEY": str(self.folder / "tls" / "tls-key.pem"),
            "RAY_TLS_CA_CERT": str(self.folder / "ca.pem"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            # A machine that is gone is noticed after ten seconds, not half a minute.
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "10",
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_raylet_start_wait_time_s": str(START_SECONDS),
            "RAY_agent_register_timeout_ms": str(1000 * START_SECONDS),
            "RAY_max_direct_call_object_size": str(self.direct),
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            "PYTHONDONTWRITEBYTECODE": "",  # six processes that each compile Ray would be late
        }
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        return RayNode(process, log)
