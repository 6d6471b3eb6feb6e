"""Attacks of malicious mix nodes: tampering with onions (`tampering`), in real rounds (`rounds`),
judged (`attack`).
"""
