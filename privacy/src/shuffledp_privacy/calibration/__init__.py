"""Calibration of parameters for a target (C11), and choice of a mechanism."""
