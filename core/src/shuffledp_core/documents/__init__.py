"""Signed documents that parties exchange, verified before they are parsed."""
