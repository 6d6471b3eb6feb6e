"""Onion encryption: suites that seal one layer, and nested layers."""
