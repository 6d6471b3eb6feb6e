"""Open-loop load tests of a deployed entry node with real submissions, none of which may be lost:
`shuffledp load`.
"""
