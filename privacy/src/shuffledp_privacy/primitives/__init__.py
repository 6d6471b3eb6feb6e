"""Shared numerics: windows and tails, laws of sums, divergences of ordered laws, inversion,
rigorous maxima.
"""
