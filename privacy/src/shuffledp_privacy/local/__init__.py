"""Bounds for local randomisers: any (K10), those of the lecture (C8 to C10), and published RDP for
comparison.
"""
