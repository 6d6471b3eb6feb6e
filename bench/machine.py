"""Description of the machine that the numbers were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """Describe processor, cores and memory in one line."""
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    total = next(
        (int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0
    )
    return (
        f"{processor}, {os.cpu_count()} cores, {total / 2**20:.0f} GiB, Python "
        f"{platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def peak_resident(pid: int) -> int:
    """Largest resident memory of a process so far, bytes (Linux)."""
    line = next(line for line in _lines(f"/proc/{pid}/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def children_of(pid: int) -> list[int]:
    """Direct child processes (Linux)."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def resident(pid: int) -> int:
    """Resident memory of a process now, bytes (Linux)."""
    line = next(line for line in _lines(f"/proc/{pid}/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far, without its children (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf(
        "SC_CLK_TCK"
    )  # utime and stime, see proc(5)
