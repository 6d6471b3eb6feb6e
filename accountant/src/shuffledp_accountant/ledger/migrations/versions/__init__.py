"""One module per revision. A published revision never changes."""
