"""Definitions that the parties of shuffledp share: mechanism specs, onions, signed documents,
errors, units.
"""
