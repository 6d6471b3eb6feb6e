"""A user's device: checks the round, randomises, seals, submits, verifies."""
