"""A mix node that reports every open round as failed, with a reason of one mebibyte."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_core.runtime.config import load_config
from shuffledp_shuffler.app import run
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.live import RoundSnapshot
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.round_state import Phase

REASON: Final = "because " * 150_000


class WordyNode(MixNode):
    """A node that is honest except for its reported status."""

    async def watch(self, round_id: str) -> AsyncGenerator[RoundSnapshot, None]:
        """Yield a single status, which is final."""
        async for snapshot in super().watch(round_id):
            record = msgspec.structs.replace(
                snapshot.record, phase=Phase.FAILED, error="BadBatchError", reason=REASON
            )
            yield replace(snapshot, record=record)
            return


if __name__ == "__main__":
    asyncio.run(run(load_config(Path(sys.argv[-1]), NodeConfig), node_of=WordyNode))
