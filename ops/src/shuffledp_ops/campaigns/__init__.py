"""Campaigns: questions that are asked again and again, planned and paid for as a whole: `shuffledp
campaign`.
"""
