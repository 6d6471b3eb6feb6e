"""`shuffledp-shuffler --config FILE` runs one mix node.

Peeling processes import the main module again, and with it this one: what a node needs is imported in `main` only,
so that a worker starts in a moment and stays small.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from shuffledp_core.errors import ShuffleDPError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the node; the exit code. One line on standard error says why it did not."""
    parser = argparse.ArgumentParser(prog="shuffledp-shuffler", description="One mix node of a shuffledp deployment.")
    parser.add_argument("--config", type=Path, required=True, help="TOML file; deploy/config has a sample of every key")
    parser.add_argument(
        "--corrupt",
        type=Path,
        metavar="LOG",
        help="laboratories only: also write who sent what into this folder, and say so in every round",
    )
    options = parser.parse_args(arguments)

    from shuffledp_core.config import load_config
    from shuffledp_shuffler.app import run
    from shuffledp_shuffler.config import NodeConfig

    try:
        config = load_config(options.config, NodeConfig)
        if options.corrupt is not None:
            warning = f"shuffledp-shuffler: CORRUPT NODE: {config.name} writes who sent what to {options.corrupt}"
            print(warning, file=sys.stderr)  # noqa: T201 - said aloud whatever the log level is
        asyncio.run(run(config, corrupt=options.corrupt))
    except ShuffleDPError as error:
        print(f"shuffledp-shuffler: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
