"""Sessions of operators: a browser that opened the printed link may operate rounds.

Pure; the clock is a parameter.

Viewing needs no session. A session begins with the console's key, and ends with the process or
after `LIFE` seconds. Every form has a token that can be used once: a forged request has none, and a
second click does not open a second round.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from shuffledp_core.errors import AccessDenied

LIFE: Final = 12 * 3600.0
"""Seconds that a session lasts."""

_MOST_SESSIONS: Final = 16
_MOST_TOKENS: Final = 64


@dataclass
class Session:
    """Session of an operator's browser, until `ends`, with the tokens of forms not sent yet."""

    ends: float
    _tokens: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def token(self) -> str:
        """A token for one form."""
        token = secrets.token_urlsafe(24)
        self._tokens[token] = None
        while len(self._tokens) > _MOST_TOKENS:
            self._tokens.popitem(last=False)
        return token

    def redeem(self, token: str) -> None:
        """Use a token, which then becomes invalid.

        Raises `AccessDenied` for one that was not given to this browser, or was used before.
        """
        if token not in self._tokens:
            raise AccessDenied(
                "this form was sent before, is too old, or is not from this console; nothing was "
                "done: look at the rounds, and open the form again if it is still wanted"
            )
        del self._tokens[token]


class Sessions:
    """All sessions of a console; `key` opens one. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.key = secrets.token_urlsafe(32)
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(self, key: str) -> str:
        """Begin a session; return its secret name. Raises `AccessDenied` for a wrong key."""
        if not hmac.compare_digest(key.encode(), self.key.encode()):
            raise AccessDenied(
                "this is not the link that the console printed when it was started; copy it whole"
            )
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(self._clock() + LIFE)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return name

    def find(self, name: str | None) -> Session | None:
        """The session of this name; None if there is none or it has ended."""
        session = self._sessions.get(name or "")
        return session if session is not None and self._clock() < session.ends else None
