"""The part of the console for operators only: signing in, and forms to open and end rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from shuffledp_core.errors import AccessDenied, UnknownRoundError, UnreachableError, UsageError
from shuffledp_ops.console import actions, forms
from shuffledp_ops.console.guards import MOST_FORM
from shuffledp_ops.console.model import RoundInfo
from shuffledp_ops.console.sessions import LIFE, Session, Sessions
from shuffledp_ops.console.watching import DeploymentWatch
from shuffledp_ops.console.web import Pages, cookie_of

T = TypeVar("T")

_FORM_SECONDS: Final = 10.0
_MOST_FIELDS: Final = 30
_DEADLINE: Final = 180.0
"""Seconds for opening a round: certificate, keys and countersignatures of all parties."""


@dataclass(frozen=True)
class Desk:
    """The operator's part of the application."""

    pages: Pages
    watch: DeploymentWatch
    sessions: Sessions
    tls: bool

    def routes(self) -> list[Route]:
        """The routes; each requires a session."""
        return [
            Route("/sign-in", self.sign_in),
            Route("/open", self.ask),
            Route("/open/confirm", self.confirm_open),
            Route("/open", self.open, methods=["POST"]),
            Route("/rounds/{round_id}/end", self.confirm_end),
            Route("/rounds/{round_id}/end", self.end, methods=["POST"]),
            Route("/rounds/{round_id}/abort", self.confirm_abort),
            Route("/rounds/{round_id}/abort", self.abort, methods=["POST"]),
        ]

    async def sign_in(self, request: Request) -> Response:
        """Begin a session for the link that the command printed.

        The key is not in any address after that.
        """
        name = self.sessions.begin(request.query_params.get("key", ""))
        answer = RedirectResponse("/", status_code=303)
        cookie = cookie_of(request)
        life = round(LIFE)
        answer.set_cookie(
            cookie, name, max_age=life, httponly=True, samesite="strict", secure=self.tls
        )
        return answer

    async def ask(self, request: Request) -> Response:
        """The page with the form for a new round."""
        self._session(request)
        return HTMLResponse(forms.ask(self.pages.viewer(request), self.watch.deployment.roster, {}))

    async def confirm_open(self, request: Request) -> Response:
        """Show the plan for confirmation, or the form again with the error."""
        session = self._session(request)
        fields = dict(request.query_params)
        viewer, roster = self.pages.viewer(request), self.watch.deployment.roster
        try:
            plan = actions.plan_of(fields, roster)
        except UsageError as error:
            return HTMLResponse(forms.ask(viewer, roster, fields, str(error)), status_code=400)
        budget = next(
            (
                candidate
                for candidate in self.watch.snapshot.budgets
                if candidate.population == plan.population
            ),
            None,
        )
        return HTMLResponse(forms.confirm_open(viewer, plan, fields, budget, session.token()))

    async def open(self, request: Request) -> Response:
        """Open the confirmed round."""
        fields = await self._redeem_form(request)
        plan = actions.plan_of(fields, self.watch.deployment.roster)
        round_id = await self._complete(actions.open_planned(self.watch.deployment, plan))
        await self.watch.until_listed(round_id)
        return RedirectResponse(f"/rounds/{round_id}/", status_code=303)

    async def confirm_end(self, request: Request) -> Response:
        """Ask for confirmation that submissions are to end."""
        return self._confirm(request, forms.confirm_end)

    async def end(self, request: Request) -> Response:
        """Close the submissions of a round."""
        await self._redeem_form(request)
        running = self._running(request)
        await self._complete(actions.end_submissions(self.watch.deployment, running.round_id))
        return RedirectResponse(f"/rounds/{running.round_id}/", status_code=303)

    async def confirm_abort(self, request: Request) -> Response:
        """Ask for confirmation that a round is to be cancelled, and for the reason."""
        return self._confirm(request, forms.confirm_abort)

    async def abort(self, request: Request) -> Response:
        """Cancel a round."""
        fields = await self._redeem_form(request)
        running = self._running(request)
        await self._complete(
            actions.give_up(self.watch.deployment, running.round_id, fields.get("reason", ""))
        )
        return RedirectResponse(f"/rounds/{running.round_id}/", status_code=303)

    def _confirm(self, request: Request, form: Callable[..., str]) -> Response:
        session = self._session(request)
        running = self._running(request)
        return HTMLResponse(form(self.pages.viewer(request), running, session.token()))

    def _session(self, request: Request) -> Session:
        session = self.pages.session(request)
        if session is None:
            raise AccessDenied(
                "this browser is not signed in as operator, or its session has ended; open the "
                "link that the console printed when it was started"
            )
        return session

    def _running(self, request: Request) -> RoundInfo:
        running = self.watch.snapshot.round(request.path_params["round_id"])
        if running is None or not running.running:
            raise UnknownRoundError("no round with this id is running now; see the list of rounds")
        return running

    async def _redeem_form(self, request: Request) -> dict[str, str]:
        """The fields of a form that this browser received and sends for the first time."""
        session = self._session(request)
        try:
            async with asyncio.timeout(_FORM_SECONDS):
                body = (
                    await request.body()
                )  # at most `MOST_FORM` bytes: `guards` has refused longer ones
        except TimeoutError as error:
            raise UsageError(
                f"the form did not arrive within {_FORM_SECONDS:g} s; send it again"
            ) from error
        try:
            pairs = parse_qsl(
                body[:MOST_FORM].decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS
            )
        except ValueError as error:
            raise UsageError("this form does not come from the console's own pages") from error
        fields = dict(pairs)
        session.redeem(fields.get("token", ""))
        return fields

    async def _complete(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_DEADLINE):
                return await work
        except TimeoutError as error:
            raise UnreachableError(
                "the analyst did not answer in time, so it is not known whether the action took "
                "effect; see the list of rounds"
            ) from error
        finally:
            self.watch.hurry()
