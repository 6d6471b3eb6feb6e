"""The analyst: opens rounds, decodes the shuffled messages, and publishes debiased answers."""
