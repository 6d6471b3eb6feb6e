"""Speed and memory as ratios of one run: `make bench`.

Not a test: machines differ, ratios much less.
"""
