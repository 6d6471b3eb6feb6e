"""Questions in the operator's TOML files: a description over a schema, or a wording.

docs/how-to/ask-by-group.md; docs/protocol.md, "Wording".
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shuffledp.records import describe_columns
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.questions import mechanism_of
from shuffledp_core.questions.described import convert_question, read_question
from shuffledp_core.runtime.files import read_file


@dataclass(frozen=True)
class QuestionFromFile:
    """A question's wording, and the name of its default mechanism."""

    wording: QuestionWording
    mechanism: str


def load_question(file: Path) -> QuestionFromFile:
    """Load the question in a TOML file: a description, or the fields of a wording.

    Raises:
        UsageError: it breaks a rule; the message says which.
        ConfigError: it cannot be read.
    """
    data = read_file(file, "question")
    try:
        question = _read(data)
        question.wording.check_size(question.wording.size, is_sum=False)
    except (UsageError, msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from error
    return question


def load_wording(file: Path, *, is_sum: bool) -> QuestionWording:
    """Load the wording in a TOML file.

    Raises:
        UsageError: it breaks a rule, or is for a sum and has no scale; the message says which.
        ConfigError: it cannot be read.
    """
    wording = load_question(file).wording
    try:
        wording.check_size(wording.size, is_sum=is_sum)
    except ValueError as error:
        raise UsageError(f"{file} cannot be used: {error}") from error
    return wording


def choose_mechanism(named: str | None, question: Path | None, default: str) -> str:
    """The mechanism that a user named, else the question's default, else `default`."""
    if named is not None:
        return named
    return default if question is None else load_question(question).mechanism


def ask(
    question: Path | None, table: str | None, data: Path | None, mechanism: str
) -> QuestionWording | None:
    """The wording from the options --question and --table; None without either.

    Raises:
        UsageError: both are given, --table has no data, or the mechanism sums.
        ConfigError: the file cannot be read.
    """
    is_sum = MECHANISMS[mechanism].answers is Answers.SUM
    if question is not None:
        if table:
            raise UsageError("--table and --question each state a question: leave one out")
        return load_wording(question, is_sum=is_sum)
    if not table:
        return None
    if data is None:
        raise UsageError("--table needs a file with its columns: name one with --data")
    if is_sum:
        raise UsageError(
            f"--table counts people, but {mechanism} sums values: choose a histogram, such as "
            "--mechanism node-histogram"
        )
    return describe_columns(data, [name.strip() for name in table.split(",")]).wording


def _read(data: bytes) -> QuestionFromFile:
    text = data.decode()
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        given = None
    if given is not None and "axes" in given:
        wording = msgspec.toml.decode(data, type=QuestionWording)
        return QuestionFromFile(wording, mechanism_of(wording))
    question = read_question(text) if given is None else convert_question(given)
    return QuestionFromFile(question.wording, question.mechanism)
