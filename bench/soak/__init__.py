"""A system under every attack that one machine can play, and 200 honest devices that must not
notice.
"""
