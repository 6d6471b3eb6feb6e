"""Whole deployments as processes on this machine."""
