"""Simulated users: their values, their devices, and the processes that seal for them."""
