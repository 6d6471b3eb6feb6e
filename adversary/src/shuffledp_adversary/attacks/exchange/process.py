"""Process of a mix node that cheats when ordered.

`python -m` this module with `--orders FOLDER --config FILE`.

It is the real node in every respect but one: after it has mixed, it tampers with its output as the
file `order` in its orders folder says (a name of `tampering.TAMPERINGS`; no file: honest), and
signs a header that fits its output. The plain messages that it makes up are left in `made` for its
accomplices.

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
    """Run the node and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="malicious-node", description="A mix node that cheats, for experiments."
    )
    parser.add_argument(
        "--orders", type=Path, required=True, help="folder in which the orders of each round lie"
    )
    parser.add_argument("--config", type=Path, required=True, help="as for shuffledp-shuffler")
    options = parser.parse_args()

    from shuffledp_adversary.attacks.exchange.node import Orders, malicious_node_of
    from shuffledp_core.runtime.config import load_config
    from shuffledp_shuffler.app import run
    from shuffledp_shuffler.config import NodeConfig

    try:
        asyncio.run(
            run(
                load_config(options.config, NodeConfig),
                node_of=malicious_node_of(Orders(options.orders)),
            )
        )
    except ShuffleDPError as error:
        print(f"malicious-node: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
