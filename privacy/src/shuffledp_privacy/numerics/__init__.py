"""Directed rounding and searches by bisection, for all analyses."""
