"""Bounds for k-RR histograms (docs/accounting.md, K1 to K9)."""
