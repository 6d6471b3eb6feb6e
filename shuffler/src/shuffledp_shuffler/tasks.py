"""Steps that must not be torn apart when the caller hangs up; see `shuffledp_core.tasks`."""

from shuffledp_core.tasks import in_thread, uninterrupted

__all__ = ["in_thread", "uninterrupted"]
