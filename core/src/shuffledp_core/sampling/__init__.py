"""Exact sampling: randomness, exact samplers for one user and for arrays of users, and the local
randomisers built on them.
"""
