"""Callers that keep to no rule but their own: what a deployment must stand when it is attacked."""
