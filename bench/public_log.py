"""Bytes and milliseconds that the public log and its witnesses add to a round.

    PYTHONPATH=tests/accountant python bench/public_log.py

Rounds are reserved in a ledger on disk, by the same code with and without two witnesses on this
machine; a device verifies each announcement with and without the log. Medians.
"""

from __future__ import annotations

import logging
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import structlog
from accountant_world import PLAN
from log_world import WITNESSES, Branch, LogWorld

from shuffledp_client.verification import parse_announcement
from shuffledp_core.transparency.entries import result_entry
from shuffledp_core.transparency.proofs import InclusionProof

ROUNDS = 70
RESULTS = 24


def main() -> None:
    """Print the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with TemporaryDirectory() as folder, LogWorld(Path(folder)) as world:
        with world.branch("with") as branch:
            seconds, announcements, checks = _publish(branch)
        terms = world.roster.log
        world.change_roster(log=msgspec.UNSET)
        with world.branch("without") as branch:
            plain, _, _ = _publish(branch)
        world.change_roster(log=terms)
        lengths = [len(data) for data in announcements]
        proofs = [_proof(data) for data in announcements]
        print(f"rounds: {ROUNDS}; the last checkpoint has {ROUNDS} entries")
        print(f"publishing, no witnesses: {1000 * median(plain):.1f} ms")
        print(f"publishing, two witnesses: {1000 * median(seconds):.1f} ms")
        print(f"announcement: {lengths[-1]:,} bytes, of which the proof {len(proofs[-1]):,}")
        print(f"proof of the first round: {len(proofs[0]):,} bytes")
        window = len(InclusionProof.from_bytes(proofs[-1].encode()).extra)
        print(f"window in the last proof: {window:,} bytes before base64")
        for require, values in checks.items():
            print(f"a device verifies, require_log={require}: {1000 * median(values):.1f} ms")
        world.corrupt(*WITNESSES)  # a log of its own, of which they know nothing yet
        with world.branch("results") as branch:
            _results(branch)


def _results(branch: Branch) -> None:
    """Print what the entry of a result adds to a round."""
    seconds, sizes = [], []
    for number in range(RESULTS):
        round_id, _ = branch.certify()
        branch.settle(round_id, PLAN.min_reports)
        start = perf_counter()
        branch.accountant.log_result(round_id, f"{number:064x}")
        branch.accountant.publish_log()
        proof = branch.accountant.result_proof(round_id, f"{number:064x}")
        seconds.append(perf_counter() - start)
        sizes.append(len(proof))
    entry = len(result_entry("demo", "00" * 16, "00" * 32).to_bytes())
    print(f"a result: an entry of {entry} bytes, logged in {1000 * median(seconds):.1f} ms")
    print(f"proof of a result in a log of {3 * RESULTS} entries: {sizes[-1]:,} bytes")


def _publish(branch: Branch) -> tuple[list[float], list[bytes], dict[bool, list[float]]]:
    seconds: list[float] = []
    checks: dict[bool, list[float]] = {False: [], True: []}
    devices = {
        require: branch.world.device(f"device-{require}-{branch.folder.name}", require_log=require)
        for require in checks
    }
    announcements = []
    for _ in range(ROUNDS):
        round_id, certificate = branch.reserve()
        start = perf_counter()
        branch.accountant.publish_log()
        seconds.append(perf_counter() - start)
        proof = branch.proof(round_id, certificate) or None
        announcements.append(branch.world.announcement(certificate, proof))
        for require, device in devices.items():
            start = perf_counter()
            device.verified(announcements[-1])
            checks[require].append(perf_counter() - start)
    return seconds, announcements, checks


def _proof(announcement: bytes) -> str:
    log = parse_announcement(announcement).log
    return log if isinstance(log, str) else ""


if __name__ == "__main__":
    main()
