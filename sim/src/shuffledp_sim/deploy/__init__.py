"""Deployments in a folder of this machine that keep running after logout: `shuffledp deploy`."""
