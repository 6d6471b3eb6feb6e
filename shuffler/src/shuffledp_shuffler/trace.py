"""A corrupt node's record of where each record of its batch came from; honest nodes have none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PoolTrace:
    """Joins the places of records in the pool with the order in which they went out.

    Memory: 24 bytes a record.
    """

    def __init__(self) -> None:
        self._addresses: list[NDArray[np.uint64]] = []
        self._places: list[NDArray[np.intp]] = []
        self._output: list[NDArray[np.uint64]] = []

    def came(self, places: NDArray[np.intp], addresses: NDArray[np.uint64]) -> None:
        """Records of these places in the pool went to these addresses."""
        self._places.append(places)
        self._addresses.append(addresses)

    def went(self, addresses: NDArray[np.uint64]) -> None:
        """The records of these addresses went out, in this order."""
        self._output.append(addresses)

    def of_output(self) -> NDArray[np.int64]:
        """The place in the pool of every record that went out, in the order of the batch."""
        addresses = np.concatenate(self._addresses)
        places = np.concatenate(self._places)
        order = np.argsort(addresses)
        ranks = np.searchsorted(addresses[order], np.concatenate(self._output))
        return places[order[ranks]].astype(np.int64)
