"""A mix node: accepts, spools, peels, permutes, relays."""
