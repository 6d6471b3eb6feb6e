"""The shuffle model of differential privacy: certify, calibrate, compose, simulate, verify."""
