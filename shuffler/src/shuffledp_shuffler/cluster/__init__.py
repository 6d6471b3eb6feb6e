"""Mixing of a round on several machines: a Ray cluster inside one node's trust boundary.

docs/adr/0015.
"""
