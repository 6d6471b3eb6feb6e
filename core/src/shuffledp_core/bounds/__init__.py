"""Privacy bounds that are cheap enough for a device: the local guarantee and lower bounds of δ."""
