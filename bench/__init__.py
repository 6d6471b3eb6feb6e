"""Benchmarks that compare speeds and memory within one run, as ratios: `make bench`.

Not a test: machines differ, ratios much less.
"""
