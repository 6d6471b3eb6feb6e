"""Run a party's module with one group library: `engine_program SETTING RECORD MODULE ARGUMENTS...`.

SETTING is that of `SHUFFLEDP_ACCEL`; RECORD is a file that gets the library's name.
"""

import os
import runpy
import sys
from pathlib import Path

from shuffledp_core.mixproof import acceleration
from shuffledp_core.onion.acceleration import VARIABLE


def main() -> None:
    """Choose the library, record it, and become the module."""
    _, setting, record, *command = sys.argv
    os.environ[VARIABLE] = setting
    library = "libsodium" if acceleration.points() is None else "accelerator"
    Path(record).write_text(library)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
