"""Bounds for sums: rr-, geo- and sgdl-shuffle, clamping, quantised and planar sums (S1 to S15)."""
