"""Whole systems on one machine: demos, fleets of simulated users, load tests, attacks."""
