"""What is known of the wire to a kernel elsewhere, and who is told and asked about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class WireState(NamedTuple):
    """Whether the wire to a kernel elsewhere is there."""

    connected: bool = True
    next_try: float = 0.0
    """When the next try to connect begins, in seconds since the epoch."""
    why: str = ""
    """Why it is not there, as a clause."""


class Wire:
    """The state of one kernel's wire. Its methods are called from threads of the wire's own."""

    def __init__(self, place: str, tell: Callable[[str], None], call: Callable[[str, Mapping[str, Any]], Any]) -> None:
        """place: where it leads. tell: says that the state has changed, with a sentence or none. call: `KernelHost.call`."""
        self._place = place
        self._tell = tell
        self._call = call
        self.state = WireState()

    def changed(self, state: WireState) -> None:
        """The wire is gone, is about to be tried again, or is back."""
        before, self.state = self.state, state
        text = ""
        if state.connected:
            text = f"The connection to {self._place} is back."
        elif before.connected:
            text = f"The connection to {self._place} is lost ({state.why}). The kernel goes on there, and what it prints is kept."
        self._tell(text)

    def ask(self, prompt: str, hidden: bool) -> str | None:
        """Ask the user what the way there wants to know, and wait. hidden: it is a password. None if there is no answer."""
        prompt = prompt.strip()
        if "\n" in prompt:  # the input row has one line
            self._tell(prompt)
        try:
            answer = self._call("input", {"prompt": prompt, "password": hidden})
        except RuntimeError:  # nobody can answer
            return None
        return None if answer is None else str(answer)
