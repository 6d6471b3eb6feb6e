"""Measuring the privacy that is really there: the clients' law, sampled exactly, run on two
neighbouring datasets.
"""
