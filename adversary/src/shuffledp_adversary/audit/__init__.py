"""Measurement of real privacy: the clients' exact law, run on two neighbouring datasets."""
