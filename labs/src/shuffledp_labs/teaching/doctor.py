"""Checks whether this machine can run the labs, before the first lesson.

Every finding says what was seen and, where something is wrong, what to do. Only what stops a lab is
called wrong; what makes it slower, or its sandbox weaker, is a note.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.onion.acceleration import VARIABLE, engine
from shuffledp_labs.student.sandbox import bubblewrap
from shuffledp_labs.teaching.grading import confinement

PORTS: Final = 12
"""Ports that a system of a lab listens on at a time, with room for a second one that has not let go
of its own yet.
"""

DISK_BYTES: Final = 500 * 10**6
"""Free space below which a lab may end in the middle; one with a running system writes about a
tenth of it.
"""

MEMORY_BYTES: Final = 10**9
"""Of a running system, 375 MB measured, with as much again for students' programs and the checks
themselves.
"""

PROCESSES: Final = 64
"""A system is 15 processes; students' programs and a shell come on top."""

CALL_SECONDS: Final = 10.0
"""A loopback that takes longer is blocked."""


@dataclass(frozen=True)
class DoctorFinding:
    """Result of one examination. `remedy` says what to do; it is empty if all is well."""

    name: str
    state: Literal["ok", "note", "wrong"]
    seen: str
    remedy: str = ""


def examine(folder: Path) -> Iterator[DoctorFinding]:
    """Yield all findings; `folder` is the intended place of the labs."""
    for look in (
        _python,
        _machine,
        _packages,
        _accelerator,
        _sandbox,
        _ports,
        _clock,
        _memory,
        _processes,
    ):
        yield _examine_one(look)
    yield _examine_one(lambda: _disk(folder))


def show(findings: tuple[DoctorFinding, ...], *, as_json: bool) -> bool:
    """Print the findings; return True if none of them is a problem."""
    well = not any(finding.state == "wrong" for finding in findings)
    if as_json:
        sys.stdout.write(msgspec.json.encode({"well": well, "findings": findings}).decode() + "\n")
        return well
    table = Table(box=None, show_header=False, pad_edge=False)
    marks = {
        "ok": "[green]ok[/green]",
        "note": "[yellow]note[/yellow]",
        "wrong": "[red]wrong[/red]",
    }
    for finding in findings:
        table.add_row(marks[finding.state], finding.name, escape(finding.seen))
        if finding.remedy:
            table.add_row("", "", f"[bold]{escape(finding.remedy)}[/bold]")
    Console(highlight=False).print(table)
    return well


def _examine_one(look: Callable[[], DoctorFinding]) -> DoctorFinding:
    try:
        return look()
    except OSError as error:  # on an unusual machine a look may fail where the labs would not
        return DoctorFinding(
            getattr(look, "__name__", "disk").strip("_"), "note", f"could not be seen: {error}"
        )


def _python() -> DoctorFinding:
    version = platform.python_version()
    return DoctorFinding("python", "ok", f"{version}, {sys.executable}")


def _machine() -> DoctorFinding:
    seen = f"{platform.system()} {platform.machine()}"
    if platform.system() == "Windows":
        return DoctorFinding(
            "machine", "wrong", seen, "use WSL2: `wsl --install`, and then everything inside it"
        )
    if "microsoft" in platform.release().lower() and Path.cwd().as_posix().startswith("/mnt/"):
        return DoctorFinding(
            "machine",
            "note",
            f"{seen}, WSL2, below /mnt",
            "work in a folder of Linux, such as ~/labs: faster",
        )
    return DoctorFinding("machine", "ok", seen)


def _packages() -> DoctorFinding:
    missing = []
    for name in ("numpy", "nacl", "grpc", "shuffledp_sim", "shuffledp_adversary"):
        try:
            __import__(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    if missing:
        return DoctorFinding(
            "packages",
            "wrong",
            "missing: " + ", ".join(missing),
            "pip install --upgrade 'shuffledp[labs]'",
        )
    if find_spec("matplotlib") is None:
        return DoctorFinding(
            "packages",
            "note",
            "all that the labs need; `lab run` draws no picture without matplotlib",
            "pip install 'shuffledp[plot]'",
        )
    return DoctorFinding(
        "packages",
        "ok",
        f"shuffledp-labs {distribution('shuffledp-labs').version} and what it needs",
    )


def _accelerator() -> DoctorFinding:
    try:
        used = engine()
    except ShuffleDPError as error:
        return DoctorFinding("accelerator", "wrong", str(error), f"unset {VARIABLE}")
    return DoctorFinding(
        "accelerator",
        "ok",
        f"shuffledp-accel, {used.path}" if used else "none; libsodium seals and opens",
    )


def _sandbox() -> DoctorFinding:
    began = time.monotonic()
    try:
        box = confinement()
    except ShuffleDPError as error:
        return DoctorFinding(
            "sandbox",
            "wrong",
            f"no student's program can be started: {error}",
            "ask where you got the labs",
        )
    if box == "none":
        why = "bubblewrap cannot start" if bubblewrap() else "there is no bubblewrap"
        return DoctorFinding(
            "sandbox",
            "note",
            f"{why}: programs run with your own rights, fine for your own",
            _NAMESPACES,
        )
    return DoctorFinding("sandbox", "ok", f"{box}, starts in {time.monotonic() - began:.1f} s")


_NAMESPACES: Final = (
    "to check others' programs, install it (apt install bubblewrap) and let an administrator "
    "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu `sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0`"
)


def _ports() -> DoctorFinding:
    with ExitStack() as stack:
        for _ in range(PORTS):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
        caller = stack.enter_context(socket.socket())
        caller.settimeout(CALL_SECONDS)
        try:
            caller.connect(listener.getsockname())
        except OSError as error:
            return DoctorFinding(
                "ports",
                "wrong",
                f"127.0.0.1 cannot be called: {error}",
                "let the firewall allow the loopback",
            )
        proxied = [
            name for name in ("grpc_proxy", "https_proxy", "http_proxy") if os.environ.get(name)
        ]
    if proxied and not os.environ.get("no_proxy"):
        return DoctorFinding(
            "ports", "note", f"{proxied[0]} is set", "export no_proxy=localhost,127.0.0.1"
        )
    return DoctorFinding("ports", "ok", f"{PORTS} on the loopback")


def _clock() -> DoctorFinding:
    # Signed documents have hours of validity: what was installed cannot be younger than now.
    installed = Path(__file__).stat().st_mtime
    now = time.time()
    if now < installed - 3600:
        return DoctorFinding(
            "clock",
            "wrong",
            f"{time.strftime('%Y-%m-%d', time.gmtime(now))} is before this was installed",
            "set the clock: `timedatectl set-ntp true`; in WSL2 `wsl --shutdown` mends it",
        )
    return DoctorFinding("clock", "ok", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)))


def _memory() -> DoctorFinding:
    file = Path("/proc/meminfo")
    if not file.exists():
        return DoctorFinding("memory", "ok", "not measured on this system")
    values = dict(line.split(":") for line in file.read_text().splitlines() if ":" in line)
    free = int(values.get("MemAvailable", "0 kB").split()[0]) * 1024
    if free < MEMORY_BYTES:
        return DoctorFinding(
            "memory",
            "note",
            f"{free / 1e9:.1f} GB free",
            "close other programs before labs with a system",
        )
    return DoctorFinding("memory", "ok", f"{free / 1e9:.1f} GB free")


def _processes() -> DoctorFinding:
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if allowed != resource.RLIM_INFINITY and allowed < PROCESSES:
        return DoctorFinding(
            "processes", "wrong", f"{allowed} allowed", f"ulimit -u {8 * PROCESSES}"
        )
    return DoctorFinding(
        "processes",
        "ok",
        "no limit" if allowed == resource.RLIM_INFINITY else f"{allowed:,} allowed",
    )


def _disk(folder: Path) -> DoctorFinding:
    if not os.access(folder, os.W_OK):
        return DoctorFinding(
            "disk", "wrong", f"{folder} cannot be written", "cd to a folder of your own"
        )
    free = shutil.disk_usage(folder).free
    if free < DISK_BYTES:
        return DoctorFinding(
            "disk", "wrong", f"{free / 1e6:.0f} MB free", f"make {DISK_BYTES / 1e6:.0f} MB of room"
        )
    return DoctorFinding("disk", "ok", f"{free / 1e9:.1f} GB free")
