"""Calibrates, certifies, and keeps the privacy budget."""
