"""The live page of a deployment, or of saved rounds alone: `shuffledp console`."""
