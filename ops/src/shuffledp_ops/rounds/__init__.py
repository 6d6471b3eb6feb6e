"""Control of one round from its plan to its report."""
