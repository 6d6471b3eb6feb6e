"""The accountant: calibrates mechanisms, certifies rounds, and keeps privacy budgets."""
