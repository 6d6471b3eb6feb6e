"""Process of lab 7's cheating node.

Run `python -m` this module with `--ask HOST:PORT --config FILE`.

Peeling processes import the main module again, so the node itself is in `node` and imported in
`main` only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from shuffledp_core.errors import ShuffleDPError


def main() -> int:
    """Run the node; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="cheating-node", description="A mix node that a lab's student instructs."
    )
    parser.add_argument("--ask", required=True, help="host:port of whoever says what to send on")
    parser.add_argument("--config", type=Path, required=True, help="as for shuffledp-shuffler")
    options = parser.parse_args()

    from shuffledp_adversary.attacks.exchange.node import Orders
    from shuffledp_core.runtime.config import load_config
    from shuffledp_labs.lab07_cheats.node import asking
    from shuffledp_shuffler.app import run
    from shuffledp_shuffler.config import NodeConfig

    try:
        orders = Orders(options.config.parent / "orders")
        orders.give(None)  # makes the folder; what goes out is asked for, not ordered
        asyncio.run(
            run(load_config(options.config, NodeConfig), node_of=asking(orders, options.ask))
        )
    except ShuffleDPError as error:
        print(f"cheating-node: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
