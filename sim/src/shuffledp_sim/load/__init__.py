"""Open-loop load tests of a running entry node with real submissions: `shuffledp load`.

None of the submissions may be lost.
"""
