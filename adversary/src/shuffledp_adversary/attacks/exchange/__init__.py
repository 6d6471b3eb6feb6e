"""Mix nodes that cheat: what they do (`tampering`), in real rounds (`rounds`), and what comes of it (`attack`)."""
