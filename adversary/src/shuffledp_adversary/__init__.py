"""Adversaries that really attack: corrupt nodes, attacks, tracing, audits."""
