"""Questions from TOML files of the operator: a description over a schema, or a wording as signed.

docs/how-to/ask-by-group.md; docs/protocol.md, "Wording".
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from shuffledp.records import describe_columns
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.questions.described import convert_question, read_question
from shuffledp_core.runtime.keys import read_file


def load_wording(file: Path, *, is_sum: bool) -> QuestionWording:
    """The question in words of a TOML file: a description, or the fields of the document.

    Raises:
        UsageError: it breaks a rule, or is for a sum and has no scale; the message says which.
        ConfigError: it cannot be read.
    """
    data = read_file(file, "question")
    try:
        wording = _read(data)
        wording.check_size(wording.size, is_sum=is_sum)
    except (UsageError, msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from error
    return wording


def ask(
    question: Path | None, table: str | None, data: Path | None, mechanism: str
) -> QuestionWording | None:
    """The question of the options --question and --table; None without either.

    Raises:
        UsageError: both are given, --table has no data, or the mechanism sums.
        ConfigError: the file cannot be read.
    """
    is_sum = MECHANISMS[mechanism].answers is Answers.SUM
    if question is not None:
        if table:
            raise UsageError("--table and --question both ask: leave one out")
        return load_wording(question, is_sum=is_sum)
    if not table:
        return None
    if data is None:
        raise UsageError("--table needs the file with its columns: name one with --data")
    if is_sum:
        raise UsageError(
            f"--table counts people, and {mechanism} sums: choose a histogram, such as "
            "--mechanism node-histogram"
        )
    return describe_columns(data, [name.strip() for name in table.split(",")]).wording


def _read(data: bytes) -> QuestionWording:
    text = data.decode()
    try:
        keys = tomllib.loads(text).keys()
    except (tomllib.TOMLDecodeError, RecursionError):
        return read_question(text).wording  # its error is a sentence
    if "axes" in keys:
        return msgspec.toml.decode(data, type=QuestionWording)
    return convert_question(tomllib.loads(text)).wording
