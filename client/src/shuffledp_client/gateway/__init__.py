"""An HTTPS gateway for devices without gRPC: it carries what is sealed and signed, and can neither
read nor forge.
"""
