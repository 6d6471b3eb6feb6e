"""A mix node's part in rounds whose mixing can be verified: docs/mixing.md, docs/protocol.md,
"Verified rounds".
"""
