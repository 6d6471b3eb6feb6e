"""What the operator of a deployment needs: keys, rosters, round control, results."""
