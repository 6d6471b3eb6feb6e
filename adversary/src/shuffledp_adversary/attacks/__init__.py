"""Attacks on the system, one per module, each measured against the claim that it tries to break."""
