"""What two parties of shuffledp must agree on: mechanism specs, onions, signed documents, errors, units."""
