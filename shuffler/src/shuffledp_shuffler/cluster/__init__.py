"""Mixing of one round on several machines: a Ray cluster within one node's trust boundary.

docs/adr/0015.
"""
