"""`make fuzz CASES=2000 SEED=1`: the accountant against an oracle that was written apart from it
(shuffle_oracle.py).

Every case asks for ε at a δ, and δ at two ε, and holds certified >= exact >= attained; the table
shows how far the certified ε is above the largest exact one of the datasets tried."""

from __future__ import annotations

import argparse
import secrets
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from fuzz_cases import KINDS, Verdict, draw, judge

PROGRESS = 50
"""Cases from one sign of life to the next."""


LOOSE = 1.05
"""Certified/exact of calibrated parameters above which the case is shown; no violation."""


def table(verdicts: Sequence[Verdict]) -> str:
    """A line for each mechanism and adjacency: cases, violations, certified/exact in the median and
    at worst."""
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.case.group, verdict.case.setting.adjacency.value].append(verdict)
    lines = [
        "| drawn | adjacency | cases | violations | compared | median | worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for (group, adjacency), found in sorted(groups.items()):
        ratios = [verdict.ratio for verdict in found if verdict.ratio is not None]
        shown = f"{statistics.median(ratios):.4f} | {max(ratios):.4f}" if ratios else "- | -"
        wrong = sum(bool(verdict.violations) for verdict in found)
        lines.append(
            f"| {group} | {adjacency} | {len(found)} | {wrong} | {len(ratios)} | {shown} |"
        )
    return "\n".join(lines)


def run(
    seed: int,
    numbers: Sequence[int],
    seconds: float,
    kinds: Sequence[str] = KINDS,
    *,
    extreme: bool = False,
) -> list[Verdict]:
    """Judges these cases, as many as begin in time.

    Says at once what is wrong, and how to see it again.
    """
    verdicts: list[Verdict] = []
    again = f"make fuzz SEED={seed}" + " EXTREME=1" * extreme
    again += "" if tuple(kinds) == KINDS else f" KINDS={','.join(kinds)}"
    began = time.monotonic()
    for number in numbers:
        if time.monotonic() - began > seconds:
            break
        verdict = judge(draw(seed, number, kinds, extreme=extreme))
        # Thousands of laws would fill the memory; nobody looks at them again.
        verdicts.append(replace(verdict, case=replace(verdict.case, pairs=())))
        for violation in verdict.violations:
            _say(f"VIOLATION {violation}\n  {verdict.case}\n  again: {again} ONLY={number}")
        if verdict.case.target is not None and (verdict.ratio or 0) > LOOSE:
            _say(f"loose by {verdict.ratio:.4f}: {verdict.case}\n  again: {again} ONLY={number}")
        if len(verdicts) % PROGRESS == 0:
            _say(f"{len(verdicts)} of {len(numbers)} cases, {time.monotonic() - began:.0f} s")
    return verdicts


def main() -> None:
    """Reads the options, prints the table, exits with 1 on a violation."""
    parser = argparse.ArgumentParser(description="The accountant against an oracle of its own.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument(
        "--seed", type=int, default=None, help="the same cases again; drawn and printed without it"
    )
    parser.add_argument(
        "--only", type=int, default=None, help="the number of one case, which is shown in full"
    )
    parser.add_argument(
        "--from", type=int, default=0, dest="first", help="first number, to go on after a stop"
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no case after so long"
    )
    parser.add_argument(
        "--kinds", default=",".join(KINDS), help="what is drawn in turn; default: %(default)s"
    )
    parser.add_argument(
        "--extreme",
        action="store_true",
        help="few users, probabilities near 0 and near 1, δ near 1",
    )
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := {*kinds} - {*KINDS}:
        parser.error(f"no kind {', '.join(sorted(unknown))}; choose from {', '.join(KINDS)}")
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    _say(f"seed {seed}")
    numbers = range(options.first, options.cases) if options.only is None else [options.only]
    verdicts = run(seed, numbers, options.seconds, kinds, extreme=options.extreme)
    if options.only is not None:
        _say("\n".join(str(verdict) for verdict in verdicts))
    _say(f"{len(verdicts)} cases\n{table(verdicts)}")
    for verdict in sorted(
        (v for v in verdicts if v.ratio is not None), key=lambda v: -(v.ratio or 0)
    )[:3]:
        _say(f"loosest: {verdict.ratio:.4f} {verdict.case}")
    sys.exit(any(verdict.violations for verdict in verdicts))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
