"""A mix node: accepts and stores submissions, then peels, permutes and relays them."""
