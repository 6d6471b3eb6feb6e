"""Verified mixing, the pure core: docs/mixing.md.

Keys and bytes in, bytes or typed errors out. Every error begins with the party at fault: "user
<credential>", "node <position>" or "analyst".
"""
