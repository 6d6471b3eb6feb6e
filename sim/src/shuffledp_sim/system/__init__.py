"""A whole deployment as processes on this machine."""
