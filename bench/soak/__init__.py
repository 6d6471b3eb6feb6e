"""A system under every attack that one machine can simulate, with 200 honest devices.

The devices must not notice the attacks.
"""
