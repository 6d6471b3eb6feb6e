"""A corrupt node's record of the origin of each outgoing record; honest nodes keep none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PoolTrace:
    """Maps outgoing records to their positions in the pool.

    Needs 24 bytes of memory per record.
    """

    def __init__(self) -> None:
        self._addresses: list[NDArray[np.uint64]] = []
        self._places: list[NDArray[np.intp]] = []
        self._output: list[NDArray[np.uint64]] = []

    def came(self, places: NDArray[np.intp], addresses: NDArray[np.uint64]) -> None:
        """Record that the records at these pool positions were stored at these addresses."""
        self._places.append(places)
        self._addresses.append(addresses)

    def went(self, addresses: NDArray[np.uint64]) -> None:
        """Record that the records at these addresses left the node, in this order."""
        self._output.append(addresses)

    def of_output(self) -> NDArray[np.int64]:
        """The pool position of every outgoing record, in the order of the batch."""
        addresses = np.concatenate(self._addresses)
        places = np.concatenate(self._places)
        order = np.argsort(addresses)
        ranks = np.searchsorted(addresses[order], np.concatenate(self._output))
        return places[order[ranks]].astype(np.int64)
