"""A deployment in one folder on this machine, that stays when the terminal is closed: `shuffledp deploy`."""
