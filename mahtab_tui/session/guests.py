"""The agents that have joined a session, and what the user can do about them."""

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
from mahtab_tui.session.cells import FinishedCell
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.profile import Profile
from mahtab_tui.session.requests import Cancelled, Requests

COLOURS = 4
"""Number of colours for agents; a fifth agent gets the first one again."""

_NAME = re.compile(r"[^a-z0-9-]+")


class Refused(Exception):
    """The call is not served; the message is a sentence for the agent."""


class Declined(Refused):
    """The user declined the call."""


class Call:
    """One call of an agent, until it is answered."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self.send = send
        """Sends a frame about the call to the agent before the answer."""
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.cancelled = False
        self.running = False
        """Whether its cell runs now."""

    def say(self, sentence: str) -> None:
        """Report progress to the agent."""
        self.send({"op": "progress", "text": sentence})

    def cancel(self) -> None:
        """Cancel the call: the agent no longer waits for it."""
        with self._lock:
            self.cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    @contextmanager
    def stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `stop` within this context. Raises `Refused` if the call was cancelled before."""
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
    """An agent that has joined the session."""

    def __init__(self, name: str, colour: int, leave: Callable[[str], None], told: FinishedCell | None) -> None:
        self.name = name
        self.colour = colour
        self.leave = leave
        """Ends its connection, with a sentence for the agent."""
        self.trusted = False
        """Whether its code runs without asking, because the user said so."""
        self.paused = False
        self.gone = False
        self.calls: set[Call] = set()
        self.told = told
        """The last finished cell that the agent knows."""
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
        """Notified when an agent is resumed, or a call is cancelled."""
        self._guests: list[Guest] = []
        self._numbers = itertools.count(1)
        self._pauses: set[str] = set()
        """Names of paused agents. They may have left: a pause lasts until the user ends it."""

    @property
    def names(self) -> list[str]:
        with self._lock:
            return [guest.name for guest in self._guests]

    def join(self, wanted: str, leave: Callable[[str], None], told: FinishedCell | None) -> Guest:
        """Add an agent, with a name and a colour of its own. told: the last finished cell.

        While a pause lasts, new agents are paused too: the paused agent could come back under another name.
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
                f"{name} has joined the session. It is paused, because {paused} is: /pause {name} resumes it, /disconnect {name} disconnects it."
            )
        else:
            self._notice(f"{name} has joined the session. /agents lists all agents, /pause and /disconnect act on one.")
        return guest

    def left(self, guest: Guest, *, stop: bool) -> None:
        """Remove an agent whose connection is gone, and withdraw its waiting calls. stop: also end its running cell."""
        with self._lock:
            if guest not in self._guests:
                return
            self._guests.remove(guest)
            guest.gone = True  # before its calls are listed, so that a call that comes now is refused
            calls = list(guest.calls)
        self._look_again()
        running = [call for call in calls if call.running]
        for call in calls:
            if stop or call not in running:
                call.cancel()
        self._inbox.hold(guest.name, False)  # now that none of its cells wait
        goes_on = " Its cell goes on." if running and not stop else ""
        self._notice(f"{guest.name} has left the session.{goes_on}")

    def pause(self, name: str = "") -> str:
        """Pause or resume an agent; returns a sentence. name: may be empty if there is only one agent."""
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
            return f"{guest.name} is paused: its calls wait, even if it joins again. /pause {guest.name} resumes it."
        return f"{guest.name} is resumed."

    def disconnect(self, name: str = "") -> str:
        """Disconnect an agent; returns a sentence."""
        guest = self._named(name)
        if isinstance(guest, str):
            return guest
        words = "The user disconnected you from the session."
        threading.Thread(target=guest.leave, args=(words,), name="disconnect", daemon=True).start()  # sending may block if it does not read
        return f"{guest.name} is disconnected."

    def sentence(self) -> str:
        """Return a sentence that lists the agents."""
        with self._lock:
            here = [f"{guest.name}{' (paused)' if guest.paused else ''}, {guest.cells} cells" for guest in self._guests]
            gone = sorted(self._pauses - {guest.name for guest in self._guests})
        sentence = f"Agents in the session: {'; '.join(here)}." if here else "No agent is in the session."
        return f"{sentence} Paused, but not here: {', '.join(gone)}; /pause NAME ends the pause." if gone else sentence

    def close(self) -> None:
        """Disconnect all agents: the session ends."""
        with self._lock:
            guests = list(self._guests)
        for guest in guests:
            guest.leave("The session was closed.")

    def new_call(self) -> str:
        """Return a new id for the records of a call."""
        return f"guest-{next(self._numbers)}"

    def wait_while_paused(self, guest: Guest, call: Call) -> None:
        """Wait until the agent is not paused. Raises `Refused`."""
        if guest.paused:
            call.say("the user has paused you")
        with call.stoppable(self._look_again), self._lock:
            self._lock.wait_for(lambda: call.cancelled or guest.gone or not guest.paused)
        if call.cancelled or guest.gone:
            raise Refused("The call was cancelled.")

    def approved(self, guest: Guest, call: Call, request: str, code: str, *, is_code: bool = True) -> str:
        """Ask the user to approve code; returns the code to run, which they may have edited. Raises `Declined` and `Refused`.

        is_code: False for the description of an action, which cannot be edited.
        """
        about = Approval(code, request=request, call=request, party=guest.name, guest=guest.colour, step=0, block=0, blocks=1)
        call.say("waits for the user's approval")
        emit(self._log, about.changed(state="waiting", is_code=is_code))
        try:
            with call.stoppable(lambda: self._approvals.cancel(request)):
                decision = self._approvals.wait(request)
        except (Cancelled, Refused):
            emit(self._log, about.changed(state="stopped"))
            raise Refused("The call was cancelled before the user had decided.") from None
        if decision.action in ("skip", "stop"):
            state = "skipped" if decision.action == "skip" else "stopped"
            emit(self._log, about.changed(state=state, reason=decision.reason))
            raise Declined(f"declined: {decision.reason}" if decision.reason else "declined: the user gave no reason")
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
