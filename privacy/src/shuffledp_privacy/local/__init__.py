"""Bounds for local randomisers: any (K10), the lecture's (C8 to C10), and published (RDP)."""
