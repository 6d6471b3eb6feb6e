"""Adversaries that really try: one module per attack, each measured against the claim it wants to break."""
