"""Results of finished rounds, fetched from the analyst: `shuffledp results`."""
