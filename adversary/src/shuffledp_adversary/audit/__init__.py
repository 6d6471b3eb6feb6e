"""Measuring the privacy that is really there: the client's own sampler, run on two neighbouring datasets."""
