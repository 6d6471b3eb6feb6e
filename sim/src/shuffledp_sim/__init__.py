"""Whole systems on one machine: demo, fleets of simulated users, attacks, experiments."""
