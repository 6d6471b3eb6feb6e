"""From the shuffled messages to the published answer: decoding, estimation, intervals."""
