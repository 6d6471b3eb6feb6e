"""A student's program as another process: requests, answers, and its sandbox."""
