"""Memory and processor time of processes, from the kernel (Linux) or from a metrics page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from shuffledp_core.errors import UsageError

METRICS_SECONDS: Final = 5.0
"""Time a metrics page may take; it must not hold the test up."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Resources used by a process, or by a process and all of its descendants.

    Attributes:
        peak_bytes: sum of the largest resident sizes so far; pages shared between them count more
            than once. From a metrics page: the resident size at that moment.
        cpu_seconds: processor time so far.
    """

    peak_bytes: int
    cpu_seconds: float


def usage_of(pid: int, *, alone: bool = False) -> Usage | None:
    """Resources used so far by a process and, unless `alone`, by its descendants.

    None when unknown.
    """
    try:
        parts = [_own_usage(member) for member in ([pid] if alone else _family(pid))]
    except OSError:
        return None
    return Usage(sum(part.peak_bytes for part in parts), sum(part.cpu_seconds for part in parts))


def check_metrics_url(url: str) -> None:
    """Raise `UsageError` unless this is the URL of a metrics page."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"the address of a metrics page must be http://host:port/metrics, not {url!r}"
        )


def usage_from_metrics(url: str) -> Usage | None:
    """Resources of a process, as reported on its Prometheus metrics page.

    None if it does not answer.
    """
    try:
        with urlopen(url, timeout=METRICS_SECONDS) as page:  # noqa: S310 - `check_metrics_url` has seen it
            lines = page.read().decode("utf-8", "replace").splitlines()
    except (OSError, HTTPException):
        return None
    values = dict(
        line.rsplit(" ", 1) for line in lines if line.startswith("process_") and " " in line
    )
    try:
        return Usage(
            int(float(values["process_resident_memory_bytes"])),
            float(values["process_cpu_seconds_total"]),
        )
    except (KeyError, ValueError):
        return None


def _family(pid: int) -> list[int]:
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            pids += _family(int(child))
    return pids


def _own_usage(pid: int) -> Usage:
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, the 14th and 15th field of proc(5)
    return Usage(1024 * int(peak.split()[1]), ticks / _TICKS)


def machine() -> str:
    """Processor, cores and memory of this machine, in one line."""
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip() for line in _lines(info) if line.startswith("model name")
    ]
    total = [
        line.split()[1] for line in _lines(Path("/proc/meminfo")) if line.startswith("MemTotal")
    ]
    memory = f", {int(total[0]) / 2**20:.0f} GiB" if total else ""
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores{memory}"


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
