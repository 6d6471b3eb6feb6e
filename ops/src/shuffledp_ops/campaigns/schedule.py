"""The dates of a campaign, with all questions in one order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta

from shuffledp_ops.campaigns.config import Campaign, Schedule, zone_named


@dataclass(frozen=True, slots=True)
class QuestionDate:
    """One date of a question: its number, from 1, and its time in milliseconds since 1970."""

    question: str
    number: int
    at: int


def moments(schedule: Schedule) -> list[int]:
    """The dates of a schedule in milliseconds since 1970, in ascending order.

    When clocks go forward, a time that does not exist is one hour later; when they go back, the
    first of two equal times counts.
    """
    zone = zone_named(schedule.zone)
    hour = time.fromisoformat(schedule.at)
    days = (
        schedule.first + timedelta(days=schedule.every_days * number)
        for number in range(schedule.count)
    )
    return [round(datetime.combine(day, hour, zone).timestamp() * 1000) for day in days]


def dates(campaign: Campaign) -> list[QuestionDate]:
    """All dates of all questions, sorted by time, then by the order in the file."""
    unsorted = [
        QuestionDate(question.name, number, at)
        for question in campaign.questions
        for number, at in enumerate(moments(campaign.schedule_of(question)), start=1)
    ]
    return sorted(unsorted, key=lambda date: date.at)  # a stable sort
