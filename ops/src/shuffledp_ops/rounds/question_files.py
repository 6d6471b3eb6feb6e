"""A question in words, from a TOML file of the operator; docs/protocol.md, "Wording"."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.runtime.keys import read_file


def load_wording(file: Path, *, is_sum: bool) -> QuestionWording:
    """The question in words of a TOML file, with the fields of the document.

    Raises:
        UsageError: it breaks a rule of the wording, or is for a sum and has no scale; the message
            says which.
        ConfigError: it cannot be read.
    """
    data = read_file(file, "question")
    try:
        wording = msgspec.toml.decode(data, type=QuestionWording)
        wording.check_size(wording.size, is_sum=is_sum)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from error
    return wording
