"""Bounds for several rounds on the same people: composition, subsampling, filters (C1 to C7, C12 to
C17).
"""
