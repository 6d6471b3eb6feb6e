"""Signed documents: what parties tell each other, verified before parsed."""
