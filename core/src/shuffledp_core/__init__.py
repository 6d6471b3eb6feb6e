"""Definitions that the parties of shuffledp share: specs, onions, signed documents, errors."""
