"""Attacks on the system, one module each, measured against the claim that each tries to break."""
