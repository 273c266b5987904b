"""The agents that take part in a session: who they are, and what the person can do about them."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, Notice, emit
from mahtab_tui.kernel.worker.frames import Frame
from mahtab_tui.session.cells import Ended
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.profile import Profile
from mahtab_tui.session.requests import Cancelled, Requests

COLOURS = 4
"""Colours that tell agents apart; a fifth agent has the first one's."""

_NAME = re.compile(r"[^a-z0-9-]+")


class Refused(Exception):
    """A call that is not served; the message is a sentence for the agent."""


class Declined(Refused):
    """The person did not let it happen."""


class Call:
    """One request of an agent's, from its coming to its answer."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self.send = send
        """Tells the agent of it, while it has no answer."""
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.cancelled = False
        self.running = False
        """Its cell runs now."""

    def say(self, sentence: str) -> None:
        """Tell the agent how far it is."""
        self.send({"op": "progress", "text": sentence})

    def cancel(self) -> None:
        """The agent does not wait for it any longer."""
        with self._lock:
            self.cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    @contextmanager
    def stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        """What `cancel` does in here. Raises `Refused` where it was cancelled before."""
        with self._lock:
            if self.cancelled:
                raise Refused("The call was cancelled.")
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = None


class Guest:
    """An agent in the session."""

    def __init__(self, name: str, colour: int, leave: Callable[[str], None], told: Ended | None) -> None:
        self.name = name
        self.colour = colour
        self.leave = leave
        """Ends its connection, with a sentence for it."""
        self.trusted = False
        """The person said that its code runs without asking."""
        self.paused = False
        self.gone = False
        self.calls: set[Call] = set()
        self.told = told
        """The last cell that it was told of, of those that have ended."""
        self.since = time.monotonic()
        self.cells = 0
        self.busy = 0.0


class Guests:
    """All agents of one session. Any thread may call."""

    def __init__(self, log: logging.Logger, inbox: Inbox, approvals: Requests[Decision], profile: Profile) -> None:
        self._log = log
        self._inbox = inbox
        self._approvals = approvals
        self._profile = profile
        self._lock = threading.Condition()
        """Notified when an agent is paused no more, or its call is over."""
        self._guests: list[Guest] = []
        self._numbers = itertools.count(1)
        self._pauses: set[str] = set()
        """Names of the agents that the person has paused. They may be gone: a pause lasts until the person ends it."""

    @property
    def names(self) -> list[str]:
        with self._lock:
            return [guest.name for guest in self._guests]

    def join(self, wanted: str, leave: Callable[[str], None], told: Ended | None) -> Guest:
        """An agent comes; it gets a name and a colour of its own. told: the last cell that has ended.

        While a pause lasts, whoever comes is paused, too: by its name, nobody can tell the paused agent from another one.
        """
        base = _NAME.sub("-", wanted.lower()).strip("-")[:20] or "agent"
        with self._lock:
            taken = {"you", self._profile.party.lower(), *(guest.name for guest in self._guests)}
            name = next(name for name in _names(base) if name not in taken)
            used = {guest.colour for guest in self._guests}
            colour = next((colour for colour in range(COLOURS) if colour not in used), len(used) % COLOURS)
            guest = Guest(name, colour, leave, told)
            guest.paused = bool(self._pauses)
            paused = ", ".join(sorted(self._pauses))
            self._guests.append(guest)
        if guest.paused:
            self._inbox.hold(name, True)
            self._notice(
                f"{name} has joined the session. It is paused, as {paused} is: /pause {name} lets it go on, /disconnect {name} sends it away."
            )
        else:
            self._notice(f"{name} has joined the session. /agents lists who is here, /pause and /disconnect act on one.")
        return guest

    def left(self, guest: Guest, *, stop: bool) -> None:
        """An agent's connection is gone. stop: end its running cell, too. What it waits for is withdrawn in any case."""
        with self._lock:
            if guest not in self._guests:
                return
            self._guests.remove(guest)
            guest.gone = True  # before its calls are looked at: one that comes now sees it
            calls = list(guest.calls)
        self._look_again()
        running = [call for call in calls if call.running]
        for call in calls:
            if stop or call not in running:
                call.cancel()
        self._inbox.hold(guest.name, False)  # when nothing of it waits any more
        goes_on = " Its cell goes on." if running and not stop else ""
        self._notice(f"{guest.name} has left the session.{goes_on}")

    def pause(self, name: str = "") -> str:
        """Hold all calls of an agent back, or let them go on; returns a sentence. name: may be left out where there is one agent."""
        guest = self._named(name)
        if isinstance(guest, str):
            if name not in self._pauses:
                return guest
            with self._lock:
                self._pauses.discard(name)
            return f"{name} is not here, and no longer paused."
        guest.paused = not guest.paused
        with self._lock:
            (self._pauses.add if guest.paused else self._pauses.discard)(guest.name)
        self._inbox.hold(guest.name, guest.paused)
        self._look_again()
        if guest.paused:
            return f"{guest.name} is paused: all that it asks for waits, also if it joins again. /pause {guest.name} lets it go on."
        return f"{guest.name} goes on."

    def disconnect(self, name: str = "") -> str:
        """Send an agent away; returns a sentence."""
        guest = self._named(name)
        if isinstance(guest, str):
            return guest
        words = "The person disconnected you from the session."
        threading.Thread(target=guest.leave, args=(words,), name="disconnect", daemon=True).start()  # it may not read what it is sent
        return f"{guest.name} is disconnected."

    def sentence(self) -> str:
        """Who is here."""
        with self._lock:
            here = [f"{guest.name}{' (paused)' if guest.paused else ''}, {guest.cells} cells" for guest in self._guests]
            gone = sorted(self._pauses - {guest.name for guest in self._guests})
        sentence = f"Agents in the session: {'; '.join(here)}." if here else "No agent is in the session."
        return f"{sentence} Paused, and gone: {', '.join(gone)}; /pause NAME ends that." if gone else sentence

    def close(self) -> None:
        """The session ends."""
        with self._lock:
            guests = list(self._guests)
        for guest in guests:
            guest.leave("The session was closed.")

    # What the calls need

    def new_call(self) -> str:
        """An id for a call's records, that no other request has."""
        return f"guest-{next(self._numbers)}"

    def wait_while_paused(self, guest: Guest, call: Call) -> None:
        """Returns when the agent may go on. Raises `Refused`."""
        if guest.paused:
            call.say("the person has paused you")
        with call.stoppable(self._look_again), self._lock:
            self._lock.wait_for(lambda: call.cancelled or guest.gone or not guest.paused)
        if call.cancelled or guest.gone:
            raise Refused("The call was cancelled.")

    def approved(self, guest: Guest, call: Call, request: str, code: str, *, is_code: bool = True) -> str:
        """The code that the person lets run, which may be edited. Raises `Declined`, `Refused`.

        is_code: else it is words for what is to be done, which can only be done or left.
        """
        about = Approval(code, request=request, call=request, party=guest.name, guest=guest.colour, step=0, block=0, blocks=1)
        call.say("waits for the person's approval")
        emit(self._log, about.changed(state="waiting", is_code=is_code))
        try:
            with call.stoppable(lambda: self._approvals.cancel(request)):
                decision = self._approvals.wait(request)
        except (Cancelled, Refused):
            emit(self._log, about.changed(state="stopped"))
            raise Refused("The call was cancelled before the person had decided.") from None
        if decision.action in ("skip", "stop"):
            state = "skipped" if decision.action == "skip" else "stopped"
            emit(self._log, about.changed(state=state, reason=decision.reason))
            raise Declined(f"declined: {decision.reason}" if decision.reason else "declined: the person gave no reason")
        guest.trusted = guest.trusted or (is_code and decision.action == "all")
        state = "run" if decision.code is None else "edited"
        emit(self._log, about.changed(text=decision.code or code, state=state))
        return decision.code or code

    def _look_again(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def _named(self, name: str) -> Guest | str:
        with self._lock:
            found = [guest for guest in self._guests if not name or guest.name == name]
        if len(found) == 1:
            return found[0]
        here = ", ".join(self.names)
        return f"Which one? In the session: {here}." if here else "No agent is in the session."

    def _notice(self, text: str) -> None:
        emit(self._log, Notice(text))


def _names(base: str) -> Iterator[str]:
    yield base
    for number in itertools.count(2):
        yield f"{base}-{number}"
