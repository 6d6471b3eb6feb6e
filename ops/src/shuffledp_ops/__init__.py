"""Operation of a deployment: keys, rosters, round control, results."""
