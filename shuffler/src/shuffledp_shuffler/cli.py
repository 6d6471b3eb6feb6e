"""`shuffledp-shuffler --config FILE` runs one mix node.

Peeling processes import the main module again, and with it this one. So the modules of a node are
imported in `main` only, which lets a worker start quickly and stay small.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shuffledp_core.errors import ShuffleDPError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node; return the exit code. On failure, one line on standard error says why."""
    from shuffledp_core.runtime.core_dumps import forbid_core_dumps
    from shuffledp_core.runtime.terminal import prepare_terminal, say_error
    from shuffledp_shuffler.command import app

    forbid_core_dumps()
    prepare_terminal()
    try:
        app(arguments, prog_name="shuffledp-shuffler")
    except ShuffleDPError as error:
        say_error(f"shuffledp-shuffler: {error}")
        return error.exit_code
    except SystemExit as end:  # of the command line itself
        return end.code if isinstance(end.code, int) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
