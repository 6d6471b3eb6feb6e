"""One round from its plan to its report: `shuffledp demo` on a system of its own, `shuffledp round` on another."""
