"""Measurement of real privacy: the clients' exact sampler, run on two neighbouring datasets."""
