"""A user's device. An app needs `Device`, and perhaps `BlockingDevice`: docs/how-to/device-kit.md.

Names are imported when they are used, because worker processes need parts of this package without
the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shuffledp_client.blocking import BlockingDevice
    from shuffledp_client.kit import Device
    from shuffledp_client.outcomes import Answered, Checked, Question, Standing

__all__ = ["Answered", "BlockingDevice", "Checked", "Device", "Question", "Standing"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shuffledp_client import blocking, kit

    return getattr(kit, name, None) or getattr(blocking, name)
