"""Attacks with the logs of corrupt nodes: join the logs, follow messages, guess values."""
