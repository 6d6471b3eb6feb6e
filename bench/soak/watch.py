"""Cost of the attacks: memory and descriptors of every process, and the fate of honest devices."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Final

import yaml

from bench.machine import children_of, peak_resident
from bench.soak.growth import Growth
from shuffledp_sim.load.figures import LoadReport
from shuffledp_sim.system.processes import LocalSystem

_COMPOSE: Final = Path(__file__).parents[2] / "deploy" / "compose.yaml"
_UNITS: Final = {"m": 2**20, "g": 2**30}


def limits() -> dict[str, int]:
    """Bytes of memory that each container of the deployment may have."""
    services = yaml.safe_load(_COMPOSE.read_text())["services"]
    limits = {}
    for name, service in services.items():
        number, unit = re.findall(r"(\d+)([mg])\b", service["mem_limit"])[-1]
        limits[name] = int(number) * _UNITS[unit]
    return limits


class SystemWatch:
    """Measures the processes once a second."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        self._descriptors: Counter[str] = Counter()
        self._dead: set[str] = set()
        self._rounds: list[LoadReport] = []
        self._failures: list[str] = []
        self._peaks: dict[str, int] = {}
        self._growth = Growth()

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            for name, process in self._system.processes.items():
                try:
                    self._look(name, process.pid)
                except (OSError, StopIteration):
                    self._dead.add(name)
            await asyncio.sleep(1)

    def _look(self, name: str, pid: int) -> None:
        self._descriptors[name] = max(
            self._descriptors[name], sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        )
        family = [pid, *children_of(pid)]
        self._peaks[name] = max(self._peaks.get(name, 0), sum(peak_resident(pid) for pid in family))

    def after_round(self) -> None:
        """Measure the resources held after a round."""
        for name, process in self._system.processes.items():
            try:
                self._growth.look(name, process.pid, self._system.folder / "state" / name)
            except (OSError, StopIteration):
                self._dead.add(name)

    def took(self, report: LoadReport, seconds: float) -> None:
        """Record an honest round that ended."""
        self._rounds.append(report)
        if report.failure is not None:
            self._failures.append(report.failure)
        print(
            f"  round {len(self._rounds)}: {report.accepted} of {report.offered} accepted, "
            f"{report.counted} counted, lost {report.lost}, refused {report.refused}, unanswered "
            f"{report.unanswered}, {seconds:.0f} s",
            flush=True,
        )

    def record_failure(self, why: str) -> None:
        """Record an honest round that failed."""
        self._failures.append(why)
        print(f"  a round failed: {why}", flush=True)

    def show(self) -> bool:
        """Print all measurements; returns True if the system withstood the attacks."""
        bounds = {**dict.fromkeys(self._system.processes, 0), **limits()}
        over = set()
        print("                       peak MiB   container's MiB   descriptors")
        for name, peak in self._peaks.items():
            bound = bounds.get(name) or (bounds["node-1"] if name.startswith("node-") else 0)
            if bound and peak > bound:
                over.add(name)
            print(
                f"  {name:<18} {peak / 2**20:>12,.0f} {bound / 2**20:>17,.0f} "
                f"{self._descriptors[name]:>13,}"
            )
        offered = sum(round_.offered for round_ in self._rounds)
        accepted = sum(round_.accepted for round_ in self._rounds)
        lost = sum(round_.lost or 0 for round_ in self._rounds)
        print(
            f"  {len(self._rounds)} rounds, {offered:,} honest submissions, {accepted:,} "
            f"accepted, {lost} lost"
        )
        growing = self._growth.show()
        for text, names in (
            ("died", self._dead),
            ("above its container's memory", over),
            ("grows", growing),
        ):
            print(f"  {text}: {', '.join(sorted(names)) or 'nobody'}")
        bad = lost or self._failures or self._dead or over or growing
        return bool(self._rounds) and not bad and accepted == offered
