"""Campaigns: repeated questions that are planned and budgeted as a whole (`shuffledp campaign`)."""
