"""`make bench`: all measurements; `python -m bench mixing audit` picks some."""

from __future__ import annotations

import sys
import time

from bench import (
    accelerated,
    accounting,
    audit,
    board_tiles,
    clustered,
    mixing,
    mixproof,
    node_noise,
    noise,
    overload,
    public_log,
    rounds,
    samplers,
    shuffling,
    submissions,
)
from bench.machine import machine

PARTS = {
    "accelerated": accelerated.run,
    "mixing": mixing.run,
    "shuffling": shuffling.run,
    "clustered": clustered.run,
    "mixproof": mixproof.run,
    "submissions": submissions.run,
    "overload": overload.run,
    "rounds": rounds.run,
    "node_noise": node_noise.measure_all,
    "accounting": accounting.run,
    "noise": noise.run,
    "samplers": samplers.run,
    "audit": audit.run,
    "public_log": public_log.run,
    "board_tiles": board_tiles.run,
}


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown[0]}; choose from {', '.join(PARTS)}")
    print(machine())
    for name in names:
        print(f"\n{name}")
        began = time.perf_counter()
        PARTS[name]()
        print(f"  [{time.perf_counter() - began:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
