"""Shared numerics: windows, tails, laws of sums, divergences, inversion, rigorous maxima."""
