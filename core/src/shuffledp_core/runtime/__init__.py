"""Process support around the protocol: configuration, keys on disk, clock, logs, signals."""
