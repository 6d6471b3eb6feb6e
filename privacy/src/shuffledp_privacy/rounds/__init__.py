"""Bounds for several rounds on the same people (C1 to C7, C12 to C17).

Composition, subsampling, filters.
"""
