"""Hostile callers that a deployment must withstand."""
