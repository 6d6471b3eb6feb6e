"""Deployments in one folder on this machine that outlive the terminal: `shuffledp deploy`."""
