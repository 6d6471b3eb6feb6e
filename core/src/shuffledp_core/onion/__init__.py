"""Onions: the suites that seal one layer, and how layers nest."""
