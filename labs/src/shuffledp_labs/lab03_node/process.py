"""Process of a mix node that mixes with a student's file.

Run `python -m` this module with `--student FILE --config FILE`.

Peeling processes import the main module again, so everything but the arguments is imported in
`main`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

MIX_SECONDS = 60.0
"""For one batch of some dozens of onions, on a busy machine."""


def main() -> int:
    """Run the node; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="student-node", description="A mix node that runs a student's peel and mix."
    )
    parser.add_argument("--student", type=Path, required=True, help="the student's work.py")
    parser.add_argument("--config", type=Path, required=True, help="as for shuffledp-shuffler")
    parser.add_argument(
        "--orders", type=Path, help="file for the order of each batch; default: none"
    )
    options = parser.parse_args()

    from shuffledp_core.errors import ShuffleDPError

    try:
        serve(options.student, options.config, options.orders)
    except ShuffleDPError as error:
        print(f"student-node: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    return 0


def serve(student: Path, config: Path, orders: Path | None = None) -> None:
    """Run the node until SIGTERM or SIGINT; the student's program has its own sandbox."""
    import asyncio

    from shuffledp_core.runtime.config import load_config
    from shuffledp_labs.lab03_node.student_node import SystemCoins, student_node
    from shuffledp_labs.student.pipes import scratch_folder
    from shuffledp_labs.student.process import StudentProgram
    from shuffledp_shuffler.app import run
    from shuffledp_shuffler.config import NodeConfig

    with scratch_folder() as scratch, StudentProgram(student, scratch) as program:

        def mix(key: bytes, batch: list[bytes]) -> object:
            return program.sample("mix", key, batch, coins=SystemCoins(), seconds=MIX_SECONDS)

        asyncio.run(run(load_config(config, NodeConfig), node_of=student_node(mix, orders)))


if __name__ == "__main__":
    sys.exit(main())
