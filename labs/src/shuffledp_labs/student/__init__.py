"""A student's program in another process: requests, answers, and its sandbox."""
