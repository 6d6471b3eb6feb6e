"""A composed system that breaks on command: each fault is a context manager, and leaving it removes
the fault."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from composed import DEPLOY, REPOSITORY, Composed, run, until

HERE: Final = Path(__file__).parent
FAKETIME: Final = (
    Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / "faketime" / "libfaketime.so.1"
)

ANNOUNCED_SECONDS: Final = 90
"""Publishers try a broker that was away again within a minute."""

RECOVERY_SECONDS: Final = 24
RELAY_SECONDS: Final = 30
HASTY_RELAY_SECONDS: Final = 5
MIX_SECONDS: Final = 25
CALL_SECONDS: Final = 8
CERTIFY_SECONDS: Final = 20

PATIENCE: Final = {
    "analyst": {
        "recovery_seconds": RECOVERY_SECONDS,
        "mix_timeout_seconds": MIX_SECONDS,
        "call_seconds": CALL_SECONDS,
        "certify_seconds": CERTIFY_SECONDS,
    },
    "node": {"relay_seconds": RELAY_SECONDS},
}
"""What the parties' configurations say beyond `deploy/containers`; seconds.

node-2 alone relays with `HASTY_RELAY_SECONDS`: where its successor is gone the round fails soon,
and where that of another node is mended there is time. An accountant that was restarted first
composes all rounds anew, 3 s of a processor, and `CERTIFY_SECONDS` are enough for that on a busy
machine; an accountant that says nothing for so long is asked a second time, because
`RECOVERY_SECONDS` are more. """

BUDGET: Final = 1e4
"""The population's, in nats: rounds that fail stay charged, and there are many."""

SLOW_BITS_PER_SECOND: Final = 100_000
LONG_RECORD_BYTES: Final = 65
"""What node-2 sends of one message: a layer for node-3 around the 17 bytes; docs/operations.md,
"Sizing".
"""

PINGS_SECONDS: Final = 30
"""After so long a connection whose other end is silent is given up: keepalive in
`shuffledp_core.transport.tls`.
"""

END_SECONDS: Final = MIX_SECONDS + CALL_SECONDS + RECOVERY_SECONDS + PINGS_SECONDS
"""No round takes longer than this from its close to its end, whatever breaks."""

OPEN_SECONDS: Final = CERTIFY_SECONDS + 3 * CALL_SECONDS
"""Opening takes no longer: a calibration, one call each for keys and countersignatures, and for
discards.
"""


def clocks_can_be_set() -> bool:
    """Whether the host has the library that gives a process another wall clock (Debian:
    libfaketime)."""
    return FAKETIME.exists()


def lines_can_be_slowed() -> bool:
    """Whether this user may shape the traffic of a container."""
    return (
        os.geteuid() == 0 and shutil.which("tc") is not None and shutil.which("nsenter") is not None
    )


@dataclass(frozen=True)
class FaultySystem(Composed):
    """`scratch` is an empty folder for configurations and clocks."""

    scratch: Path = field(default_factory=Path)

    def start(self) -> None:
        """Brings everything up, with short patience, and all clocks right.

        Nobody waits here for health checks, which come every ten seconds: a round that can be
        opened tells more."""
        self._write_templates()
        self._clocks.mkdir()
        self._clocks.chmod(0o755)
        for party in ("node-1", "node-2", "analyst", "accountant"):
            (self._clocks / party).write_text("+0")
        if clocks_can_be_set():
            shutil.copy(FAKETIME, self._clocks)
        self.compose("run", "--rm", "keys")
        nodes, witnesses = ("node-1", "node-2", "node-3"), ("witness-1", "witness-2")
        early = ("ledger", "mosquitto", *witnesses, *nodes, "analyst", "driver")
        self.compose("up", "--detach", "--no-deps", *early)
        self.until_database_answers()
        self.compose("up", "--detach", "--no-deps", "accountant")

    def compose(self, *arguments: str) -> str:
        """As in `Composed`, with what faults need beside it."""
        files = ["--file", str(HERE / "compose.faults.yaml")]
        if clocks_can_be_set():
            files += ["--file", str(HERE / "compose.clocks.yaml")]
        return super().compose(*files, *arguments)

    @contextmanager
    def down(self, service: str) -> Iterator[None]:
        """Killed without warning, started again in the end."""
        container = self.container(service)
        run(["docker", "kill", container])
        try:
            yield
        finally:
            run(["docker", "start", container])

    @contextmanager
    def paused(self, service: str) -> Iterator[None]:
        """Frozen: its connections stay, and nobody answers."""
        container = self.container(service)
        run(["docker", "pause", container])
        try:
            yield
        finally:
            run(["docker", "unpause", container])

    @contextmanager
    def cut_off(self, service: str, network: str) -> Iterator[None]:
        """Out of one network, in all its others."""
        container = self.container(service)
        line = [f"{self.project}_{network}", container]
        names = json.loads(run(["docker", "inspect", container]))[0]["NetworkSettings"]["Networks"][
            line[0]
        ]["Aliases"]
        run(["docker", "network", "disconnect", *line])
        try:
            yield
        finally:
            run(["docker", "network", "connect", *(f"--alias={name}" for name in names), *line])

    @contextmanager
    def slow(self, service: str) -> Iterator[None]:
        """All that the service sends, in every network, at `SLOW_BITS_PER_SECOND`.

        400 ms late where it queues.
        """
        rate = f"{SLOW_BITS_PER_SECOND}bit"
        process = str(
            json.loads(run(["docker", "inspect", self.container(service)]))[0]["State"]["Pid"]
        )
        tc = ["nsenter", "--target", process, "--net", "tc", "qdisc"]
        shown = json.loads(run(["nsenter", "--target", process, "--net", "ip", "-json", "link"]))
        lines = [link["ifname"] for link in shown if link["ifname"] != "lo"]
        for line in lines:
            run(
                [
                    *tc,
                    "add",
                    "dev",
                    line,
                    "root",
                    "tbf",
                    "rate",
                    rate,
                    "burst",
                    "32kbit",
                    "latency",
                    "400ms",
                ]
            )
        try:
            yield
        finally:
            for line in lines:
                run([*tc, "del", "dev", line, "root"])

    @contextmanager
    def full_disk(self, node: str) -> Iterator[None]:
        """Not one byte is left where a node keeps its state."""
        self.python(node, _FILL)
        try:
            yield
        finally:
            self.python(node, "import os; os.unlink('/state/filler')")

    @contextmanager
    def clock_off(self, service: str, seconds: int) -> Iterator[None]:
        """The wall clock of one party jumps by so much."""
        self._set_clock(service, f"{seconds:+d}")
        try:
            yield
        finally:
            self._set_clock(service, "+0")

    def until_database_answers(self) -> None:
        """Waits until the ledger's server takes connections."""
        ready = [
            "docker",
            "exec",
            self.container("ledger"),
            "pg_isready",
            "--quiet",
            "--host=127.0.0.1",
        ]
        until(
            lambda: subprocess.run(ready, check=False, timeout=CALL_SECONDS).returncode == 0,
            "the database answers",
        )

    def sql(self, question: str) -> list[str]:
        """The words of what the ledger's database answers, once it answers."""
        psql = [
            "psql",
            "-h",
            "/var/run/postgresql",
            "-U",
            "accountant",
            "-At",
            "-c",
            question,
            "ledger",
        ]
        self.until_database_answers()
        return run(["docker", "exec", self.container("ledger"), *psql]).split()

    def charges(self, round_id: str) -> list[str]:
        """The states of a round's charges in the ledger: at most one, if nothing is counted
        twice."""
        return self.sql(f"select state from charges where round_id = '{round_id}'")  # noqa: S608

    def reserved(self) -> set[str]:
        """The rounds that are charged and neither settled nor released."""
        return set(self.sql("select round_id from charges where state = 'reserved'"))

    def retained(self, round_id: str, kind: str) -> str:
        """A document of a round as the broker keeps it, once it has one."""
        topic = f"shuffledp/v1/+/rounds/{round_id}/{kind}"
        listen = ["mosquitto_sub", "-t", topic, "-C", "1", "-W", str(ANNOUNCED_SECONDS)]
        return run(["docker", "exec", self.container("mosquitto"), *listen])

    def free_bytes(self, node: str) -> int:
        """What is left on a node's disk."""
        return int(
            self.python(node, "import os; s = os.statvfs('/state'); print(s.f_bavail * s.f_bsize)")
        )

    @property
    def _clocks(self) -> Path:
        return self.scratch / "clocks"

    def _set_clock(self, service: str, offset: str) -> None:
        new = self._clocks / "new"
        new.write_text(offset)
        new.replace(self._clocks / service)

    def _write_templates(self) -> None:
        shutil.copytree(DEPLOY / "containers", self.scratch / "containers")
        for name, patience in PATIENCE.items():
            file = self.scratch / "containers" / f"{name}.toml"
            lines = "".join(f"{key} = {value:.1f}\n" for key, value in patience.items())
            file.write_text(
                file.read_text().replace('state = "/state"\n', f'state = "/state"\n{lines}')
            )
        accountant = self.scratch / "containers" / "accountant.toml"
        accountant.write_text(
            accountant.read_text().replace("epsilon = 100.0", f"epsilon = {BUDGET}")
        )
        keys = self.scratch / "containers" / "make-keys.sh"
        hasty = (
            f"sed -i 's/^relay_seconds = .*/relay_seconds = {HASTY_RELAY_SECONDS:.1f}/' "
            "/parties/node-2/config.toml"
        )
        keys.write_text(keys.read_text().replace("\npassword=", f"\n{hasty}\npassword="))

    def _all(self) -> dict[str, str]:
        folders = {
            "SHUFFLEDP_CONTAINERS": str(self.scratch / "containers"),
            "CLOCKS": str(self._clocks),
        }
        return super()._all() | folders


_FILL: Final = """
with open("/state/filler", "wb", buffering=0) as file:
    for size in (65536, 1):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
"""


class Driver:
    """Operator and users of the system, in its container `driver`; see `fault_driver`."""

    def __init__(self, system: FaultySystem) -> None:
        source = (HERE / "fault_driver.py").read_text()
        command = [
            "docker",
            "exec",
            "--interactive",
            system.container("driver"),
            "python",
            "-c",
            source,
        ]
        self._process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            bufsize=0,
        )

    def tell(self, do: str, **options: object) -> None:
        """Gives an order, whose answer is to be heard later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **options}).encode() + b"\n")

    def hear(self, seconds: float = END_SECONDS) -> dict[str, Any]:
        """The answer to the oldest order that has none.

        Fails when it takes longer than `seconds`.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        assert ready, f"no answer within {seconds} s"
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def ask(self, do: str, **options: object) -> dict[str, Any]:
        """The answer to an order, within the patience of the parties."""
        self.tell(do, **options)
        return self.hear(OPEN_SECONDS if do == "open" else END_SECONDS)

    def open(self, users: int = 20, messages: int = 3, seconds: float = 300.0) -> str:
        """Opens a round that must open, for at most `users` and `seconds`, each with so many
        messages; its id."""
        answer = self.ask("open", users=users, messages=messages, seconds=seconds)
        assert "round" in answer, answer
        return str(answer["round"])

    def refused(self) -> tuple[str, str]:
        """Class and sentence of the error with which a round of 20 is not opened."""
        answer = self.ask("open", users=20)
        assert "round" not in answer, "the round opens all the same"
        return answer["error"], answer["reason"]

    def opens(self) -> bool:
        """Whether a round of 20 can be opened now.

        False while a party or the database still starts.
        """
        answer = self.ask("open", users=20)
        assert answer.get("error") in {None, "UnreachableError", "LedgerAwayError"}, answer
        return "round" in answer

    def submit(self, users: int) -> None:
        """New users, each of whom gets a receipt."""
        assert self.ask("submit", users=users) == {"receipts": users, "refused": {}}

    def close(self) -> None:
        """Ends the driver's input and waits for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=END_SECONDS)
        self._process.stdout.close()
