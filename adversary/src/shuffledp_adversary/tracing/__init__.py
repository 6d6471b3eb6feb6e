"""Attacks with corrupt nodes' logs: join the logs, follow messages, guess values."""
