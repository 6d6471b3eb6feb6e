"""Rounds that are over, asked of the analyst: `shuffledp results`."""
