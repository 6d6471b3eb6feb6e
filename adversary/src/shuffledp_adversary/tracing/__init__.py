"""What corrupt nodes can do with what they wrote down: join their logs, follow messages, guess values."""
