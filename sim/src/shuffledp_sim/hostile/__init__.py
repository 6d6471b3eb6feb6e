"""Hostile callers, which a deployment must withstand."""
