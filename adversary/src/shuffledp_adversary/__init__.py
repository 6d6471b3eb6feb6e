"""Adversaries that really try: corrupt nodes, attacks, tracing, audit."""
