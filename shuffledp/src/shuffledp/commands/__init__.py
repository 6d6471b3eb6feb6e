"""The library on the command line: `shuffledp certify`, `calibrate`, `advise`, `compose`, `verify`
and `simulate`.
"""
