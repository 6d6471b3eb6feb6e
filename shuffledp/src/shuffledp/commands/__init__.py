"""The accountant on the command line: `shuffledp certify`, `calibrate`, `advise` and `verify`."""
