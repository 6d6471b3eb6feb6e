"""The dates of a campaign, all questions in one order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta

from shuffledp_ops.campaigns.config import Campaign, Schedule, zone_named


@dataclass(frozen=True, slots=True)
class Date:
    """One date of a question: its number, from 1, and when, in milliseconds since 1970."""

    question: str
    number: int
    at: int


def moments(schedule: Schedule) -> list[int]:
    """The dates of a schedule in milliseconds since 1970, rising.

    An hour that a night in spring leaves out comes so much later; of an hour that there is twice it
    is the first.
    """
    zone, hour = zone_named(schedule.zone), time.fromisoformat(schedule.at)
    days = (
        schedule.first + timedelta(days=schedule.every_days * number)
        for number in range(schedule.count)
    )
    return [round(datetime.combine(day, hour, zone).timestamp() * 1000) for day in days]


def dates(campaign: Campaign) -> list[Date]:
    """All dates of all questions, in the order in which they are asked: by time, then as in the
    file.
    """
    found = [
        Date(question.name, number, at)
        for question in campaign.questions
        for number, at in enumerate(moments(campaign.schedule_of(question)), start=1)
    ]
    return sorted(
        found, key=lambda date: date.at
    )  # stable: questions of one time stay in the file's order
