"""The command `shuffledp report`: regenerates a saved round's page, optionally with texts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from shuffledp.open_lists import load_candidates
from shuffledp.progress import working
from shuffledp_core.answering.strings import find_strings
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_ops.rounds.present import print_report, write_page, write_texts
from shuffledp_ops.rounds.reading import read_round, round_folder
from shuffledp_ops.rounds.report import RoundReport


def run_report_command(named: Path, candidates: Path | None = None) -> None:
    """Verify a saved round's documents, write its page next to them, and print the path.

    With a file of candidates it also prints the frequent texts of an open list, and writes them as
    a table.

    Raises:
        UsageError: the candidates cannot be read, or the question is no open list.
        ConfigError: there is no such round, or a file of it is missing.
        DocumentError: a document does not verify.
        OutputError: the page cannot be written.
    """
    folder = round_folder(named)
    with working("verifying"):
        report = read_round(folder)
        if candidates is not None:
            report = look_up(report, candidates)
    try:
        if candidates is not None:
            write_texts(report, folder)
        file = write_page(report, folder)
    except OSError as error:
        raise OutputError(
            f"cannot write the page into {folder}: {error.strerror}; copy the folder to a place "
            "where you may write, and name the copy"
        ) from error
    if candidates is not None:
        print_report(report, Console())
    sys.stdout.write(f"documents verified; the page is {file}\n")


def look_up(report: RoundReport, candidates: Path) -> RoundReport:
    """Add to a report the frequent texts among the candidates in a file.

    Raises:
        UsageError: the file cannot be read, or the question is no open list.
    """
    words = report.final.question_wording
    if words is None or words.hashes is None:
        raise UsageError(
            "--candidates is for open lists, and this round asked another question: leave it out"
        )
    texts = load_candidates(candidates)
    answer = find_strings(words.hashes, report.estimate.values, report.counted_reports, texts)
    return replace(report, open_list=answer)
