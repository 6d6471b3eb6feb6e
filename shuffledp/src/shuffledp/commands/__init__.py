"""The library's commands: `shuffledp certify`, `calibrate`, `advise`, `compose`, `verify`.

Also `simulate` and `location`.
"""
