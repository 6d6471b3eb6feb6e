"""The analyst: opens rounds, reads the shuffled messages, debiases, publishes."""
