"""The connection to a kernel on another machine, as the user sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any


class ConnectionState:
    """The connection to a remote kernel, as the user sees it."""

    def __init__(
        self,
        host: str,
        report: Callable[[str], None],
        call: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        """Create a state.

        Args:
            host: The other machine, for the user.
            report: Reports the state, with a sentence that may be empty.
            call: Calls a function of the `KernelHost`.
        """
        self._host = host
        self._report = report
        self._call = call
        self.next_try = 0.0
        """When the next attempt to connect follows, in seconds since the epoch; 0 if connected."""
        self.given_up = threading.Event()
        """Set once the kernel is not needed any more, so that nothing waits long."""

    def lost(self, next_try: float, reason: str) -> None:
        """Report that the connection is lost; the sentence is only given the first time."""
        text = ""
        if not self.next_try:
            text = (
                f"Lost the connection to {self._host} ({reason})."
                " The kernel keeps running, and its output is kept."
            )
        self.next_try = next_try
        self._report(text)

    def back(self) -> None:
        """Report that the connection is there again."""
        self.next_try = 0.0
        self._report(f"Reconnected to {self._host}.")

    def ask(self, prompt: str, hidden: bool) -> str | None:
        """Ask the user for what the connection needs.

        Args:
            prompt: What the connecting command asks.
            hidden: Whether the answer is a password.

        Returns:
            The answer; None if there is none.
        """
        prompt = prompt.strip()
        # A prompt of several lines does not fit beside the input.
        if "\n" in prompt:
            self._report(prompt)
        try:
            answer = self._call("input", {"prompt": prompt, "password": hidden})
        except RuntimeError:
            return None
        if answer is None:
            return None
        return str(answer)
