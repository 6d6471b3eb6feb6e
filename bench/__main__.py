"""`make bench`: all measurements; `python -m bench mixing rounds accounting` picks some."""

from __future__ import annotations

import sys

from bench import accounting, mixing, rounds
from bench.machine import machine

PARTS = {"mixing": mixing.run, "rounds": rounds.run, "accounting": accounting.run}


def main() -> None:
    """Runs the parts named on the command line, or all."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown[0]}; choose from {', '.join(PARTS)}")
    print(machine())
    for name in names:
        print(f"\n{name}")
        PARTS[name]()


if __name__ == "__main__":
    main()
