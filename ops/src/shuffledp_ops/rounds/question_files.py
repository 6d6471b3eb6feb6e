"""A question in words, from a TOML file of the operator; docs/protocol.md, "Wording"."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.runtime.keys import read_file


def load_wording(file: Path) -> QuestionWording:
    """The question in words of a TOML file, with the fields of the document.

    Raises:
        UsageError: it breaks a rule of the wording; the message says which.
        ConfigError: it cannot be read.
    """
    data = read_file(file, "question")
    try:
        return msgspec.toml.decode(data, type=QuestionWording)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{file} is not a question in words: {error}") from error
