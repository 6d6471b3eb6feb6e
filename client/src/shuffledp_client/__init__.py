"""A user's device: check the round, randomise, seal, submit, verify."""
