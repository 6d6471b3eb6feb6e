"""Opens rounds, reads the shuffled messages, debiases, publishes."""
