"""`shuffledp load`: an open-loop load test of a deployed entry node, with real submissions; none may be lost."""
