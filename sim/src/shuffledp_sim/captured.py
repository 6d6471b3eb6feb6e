"""Files of a simulated round with corrupt nodes, which `shuffledp_adversary.tracing` attacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_shuffler.corruption import CREDENTIAL_BYTES

LOGS: Final = "corrupt"
"""Folder with the logs of each corrupt node."""

TRUTH: Final = "truth.npz"
"""File with every user's credential and value."""


def keep_truth(folder: Path, credentials: Sequence[bytes], values: NDArray[np.int64]) -> None:
    """Write every user's credential and value into a round's folder; simulators only."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = np.frombuffer(b"".join(credentials), dtype=np.uint8).reshape(-1, CREDENTIAL_BYTES)
    np.savez(folder / TRUTH, allow_pickle=False, credentials=packed, values=values)
