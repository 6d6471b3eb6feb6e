"""Attacks by malicious mix nodes: tampering with onions, real rounds, and findings."""
