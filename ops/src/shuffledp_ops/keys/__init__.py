"""Keys of a deployment: made, shown, renewed (`shuffledp keys`)."""
