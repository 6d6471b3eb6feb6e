"""Questions from TOML files of the operator: a description over a schema, or a wording as signed.

docs/how-to/ask-by-group.md; docs/protocol.md, "Wording".
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
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


def _read(data: bytes) -> QuestionWording:
    text = data.decode()
    try:
        keys = tomllib.loads(text).keys()
    except (tomllib.TOMLDecodeError, RecursionError):
        return read_question(text).wording  # its error is a sentence
    if "axes" in keys:
        return msgspec.toml.decode(data, type=QuestionWording)
    return convert_question(tomllib.loads(text)).wording
