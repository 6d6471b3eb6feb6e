"""`python -m shuffledp_client.web [FOLDER]` prints the files' digests, and copies the files."""

from __future__ import annotations

import sys
from pathlib import Path

from shuffledp_client.web import SCRIPTS, integrity_of, read_web_file


def main() -> None:
    """Print `integrity` values; with a folder, write the files there for a page's own server."""
    for name in SCRIPTS:
        if len(sys.argv) > 1:
            (Path(sys.argv[1]) / name).write_bytes(read_web_file(name))
        sys.stdout.write(f"{name} {integrity_of(name)}\n")


if __name__ == "__main__":
    main()
