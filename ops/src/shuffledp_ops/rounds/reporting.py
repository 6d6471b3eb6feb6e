"""The command `shuffledp report`: the page of a saved round, made again."""

from __future__ import annotations

import sys
from pathlib import Path

from shuffledp.progress import working
from shuffledp_core.errors import OutputError
from shuffledp_ops.rounds.present import write_page
from shuffledp_ops.rounds.reading import read_round, round_folder


def run_report_command(named: Path) -> None:
    """Verifies the documents of a saved round, writes its page beside them, and prints where it is.

    Raises:
        ConfigError: there is no such round, or a file of it is missing.
        DocumentError: a document does not verify.
        OutputError: the page cannot be written.
    """
    folder = round_folder(named)
    with working("verifying"):
        report = read_round(folder)
    try:
        file = write_page(report, folder)
    except OSError as error:
        raise OutputError(
            f"cannot write the page into {folder}: {error.strerror}; copy the folder to where you "
            "may write, and name the copy"
        ) from error
    sys.stdout.write(f"documents verified; the page is {file}\n")
