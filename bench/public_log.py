"""Bytes and milliseconds that the public log and its witnesses add to a round.

The same rounds are played in turn without a log, with one, and with one that two witnesses sign:
real accountants with ledgers on disk, a device that takes part in each round, and witnesses on this
machine. Medians.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import structlog

from shuffledp_client.transport import RoundEnd
from shuffledp_client.verification import parse_announcement
from shuffledp_core.documents.signed import Signed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "accountant"))
from log_results import DirectLink, LoggedRound
from log_world import Branch, LogWorld

ROUNDS = 26
"""Of each kind: after 22 the log has more entries than the window of a proof."""


class SilentBranch(Branch):
    """An accountant that writes no log; its transactions still commit the entries."""

    def publish(self) -> None:
        """Writes nothing."""


@dataclass
class RoundCosts:
    """Cost of each round: seconds, of a clock and of the processor, and bytes."""

    device: list[float] = field(default_factory=list)
    device_busy: list[float] = field(default_factory=list)
    parties: list[float] = field(default_factory=list)
    parties_busy: list[float] = field(default_factory=list)
    announcement: list[int] = field(default_factory=list)
    result: list[int] = field(default_factory=list)
    proofs: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)


def run() -> None:
    """Play the rounds and print the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with TemporaryDirectory() as folder, _branches(Path(folder)) as branches:
        costs = [RoundCosts() for _ in branches]
        turns = list(zip(branches, costs, strict=True))
        for number in range(ROUNDS):
            first = number % len(turns)
            for branch, cost in turns[first:] + turns[:first]:
                asyncio.run(_play(branch, cost))
    print("  without a log; with one; with one that two witnesses sign")
    print(f"  time: medians of {ROUNDS} rounds; bytes: of the last one")
    _print_times("device", [cost.device for cost in costs])
    _print_times("device, of the processor", [cost.device_busy for cost in costs])
    _print_times("all others", [cost.parties for cost in costs])
    _print_times("all others, of the processor", [cost.parties_busy for cost in costs])
    _print_row("announcement, bytes", [cost.announcement[-1:] for cost in costs])
    _print_row("result, bytes", [cost.result[-1:] for cost in costs])
    _print_row("entries, bytes", [cost.entries[-1:] for cost in costs])
    first, *_, last = costs[-1].proofs
    print(f"  proof of the first round {first:,} bytes, of the last {last:,}")


@contextmanager
def _branches(folder: Path) -> Iterator[list[Branch]]:
    """Context with accountants without a log, with a log, and with a witnessed log."""
    alone = LogWorld(folder / "alone")
    signed = LogWorld(folder / "signed")
    with alone, signed, ExitStack() as open_branches:
        alone.change_roster(log=msgspec.UNSET)
        silent, logged, witnessed = (
            open_branches.enter_context(world.branch(name))
            for world, name in ((alone, "silent"), (alone, "logged"), (signed, "witnessed"))
        )
        yield [SilentBranch(alone, silent.folder, silent.accountant), logged, witnessed]


def _print_times(name: str, columns: list[list[float]]) -> None:
    _print_row(f"{name}, ms", [[1000 * seconds for seconds in column] for column in columns])


def _print_row(name: str, columns: list[list[float]] | list[list[int]]) -> None:
    """Print the medians, and their ratios to the first one."""
    first, *others = (median(values) for values in columns)
    with_ratios = (
        f"{value:,.0f} ({value / first:.2f} times)" if first else f"{value:,.0f}"
        for value in others
    )
    print(f"  {name}: {first:,.0f}; {'; '.join(with_ratios)}")


@contextmanager
def _timer(clock: list[float], busy: list[float]) -> Iterator[None]:
    """Add the time of the enclosed work to the newest numbers."""
    wall = time.perf_counter()
    processor = time.process_time()
    yield
    clock[-1] += time.perf_counter() - wall
    busy[-1] += time.process_time() - processor


async def _play(branch: Branch, cost: RoundCosts) -> None:
    """Play one device's whole round: charged, announced, answered, settled, logged, checked."""
    for seconds in (cost.device, cost.device_busy, cost.parties, cost.parties_busy):
        seconds.append(0.0)
    before = _entry_bytes(branch)
    with _timer(cost.parties, cost.parties_busy):
        round_ = LoggedRound(branch.world, branch)
    link = DirectLink(round_)
    device = branch.world.device(f"device-{branch.folder.name}", link=link)
    with _timer(cost.device, cost.device_busy):
        await round_.answer(device)
    board = round_.board()
    with _timer(cost.parties, cost.parties_busy):
        result = round_.result(board, round_.settle(board))
        proof = _log(round_, branch, result)
    link.board_bytes, link.end = board, RoundEnd(result, log=proof)
    with _timer(cost.device, cost.device_busy):
        await device.verify(round_.round_id)
    announced = parse_announcement(round_.announcement).log
    cost.announcement.append(len(round_.announcement))
    cost.proofs.append(len(announced) if isinstance(announced, str) else 0)
    cost.result.append(len(result.to_bytes()) + len(proof or b""))
    cost.entries.append(_entry_bytes(branch) - before)


def _log(round_: LoggedRound, branch: Branch, result: Signed) -> bytes | None:
    """Have a result logged; return its proof, if devices require one."""
    if isinstance(branch, SilentBranch):
        return None
    proof = round_.log(result)
    return proof if branch.world.roster.log_terms is not None else None


def _entry_bytes(branch: Branch) -> int:
    """Bytes of all entries, which the widest bundle of a short log holds."""
    bundles = (branch.folder / "log" / "tile" / "entries").rglob("*")
    return max((file.stat().st_size for file in bundles if file.is_file()), default=0)


if __name__ == "__main__":
    run()
