"""An HTTPS gateway for devices without gRPC; it can neither read nor forge their messages."""
