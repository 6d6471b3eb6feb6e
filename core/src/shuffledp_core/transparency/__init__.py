"""Transparency logs: Merkle tree, signed checkpoints and tiles in the C2SP formats."""
