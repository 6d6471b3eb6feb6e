"""From a target to parameters (C11), and which mechanism to choose."""
