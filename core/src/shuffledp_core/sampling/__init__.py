"""Exact sampling: randomness, exact samplers for one or many users, and local randomisers."""
