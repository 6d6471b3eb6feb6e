"""A mix node's part in rounds with provable mixing.

docs/mixing.md; docs/protocol.md, "Verified rounds".
"""
