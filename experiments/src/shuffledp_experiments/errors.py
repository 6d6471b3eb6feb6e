"""Errors of the experiments."""

from __future__ import annotations

from shuffledp_core.errors import ShuffleDPError


class UnknownExperimentError(ShuffleDPError):
    """No table or figure has this id. Exit code 2."""

    exit_code = 2


class DataNeededError(ShuffleDPError):
    """An experiment needs a file that is not in the data folder, or that cannot be read.

    Exit code 2.
    """

    exit_code = 2
