"""The accountant: calibrates, certifies, and keeps the privacy budget."""
