"""Requests of code in a Jupyter kernel to the session: lines of input, and calls of host functions,
which come as marked questions for input."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from mahtab_tui.kernel.answers import CallAnswers
from mahtab_tui.kernel.base import KernelHost
from mahtab_tui.kernel.protocol import HostCall, checked
from mahtab_tui.kernel.worker.frames import Frame

END_OF_INPUT = "\x04"


class KernelCalls:
    """The open questions of one kernel. Any thread may call it."""

    def __init__(
        self,
        host: KernelHost,
        token: str,
        reply: Callable[[str], None],
        echo: Callable[[str], None],
    ) -> None:
        """token: what marked questions begin with. reply: sends a line. echo: shows what was asked
        and typed, since the kernel does not."""
        self._token = token
        self._reply = reply
        self._echo = echo
        self._answers = CallAnswers(host, self._answer)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._inputs: dict[int, tuple[str, bool]] = {}
        """The prompts of lines that are asked for, and whether they are hidden."""
        self._calls: list[int] = []
        """The open calls of host functions, one inside the other."""
        self._waits = False
        """Whether the kernel waits for a frame to the innermost call."""
        self._held: dict[int, deque[Frame]] = {}

    def asked(self, prompt: str, password: bool) -> None:
        """The kernel asks. Raises `KernelError`, `ValueError` if a marked question is malformed."""
        number = next(self._ids)
        if not prompt.startswith(self._token):
            with self._lock:
                self._inputs[number] = prompt, password
            self._answers.begin(HostCall(number, "input", {"prompt": prompt, "password": password}))
            return
        frame = checked(dict[str, Any], json.loads(prompt.removeprefix(self._token)))
        if frame.get("op") == "call":
            call = checked(HostCall, {**frame, "id": number})
            with self._lock:
                self._calls.append(number)
                self._held[number] = deque()
                self._waits = True
            self._answers.begin(call)
        else:
            with self._lock:
                self._waits = True
                self._send_next()

    def run_nested(self, frame: Frame) -> bool:
        """Have the kernel run a cell while the innermost call waits; False if none waits."""
        with self._lock:
            if not self._calls:
                return False
            self._held[self._calls[-1]].append(frame)
            self._send_next()
            return True

    def cancelled(self) -> None:
        """The kernel no longer waits for the innermost call."""
        with self._lock:
            number = self._calls.pop() if self._calls else 0
            self._held.pop(number, None)
            self._waits = False
        self._answers.cancel(number)

    def quit(self) -> None:
        """The cell has called `exit()`."""
        self._answers.begin(HostCall(next(self._ids), "quit", {}))

    def end(self) -> None:
        """The cell has ended, or the kernel."""
        with self._lock:
            self._calls.clear()
            self._inputs.clear()
            self._held.clear()
            self._waits = False
        self._answers.cancel_all()

    def _answer(self, answer: Frame) -> None:
        number = answer["id"]
        with self._lock:
            asked = self._inputs.pop(number, None)
            if asked is None:
                if number in self._held:
                    self._held[number].append(answer)
                    self._send_next()
                return
        line = answer.get("value")
        shown = str(answer.get("error", "")) or (
            line if isinstance(line, str) and not asked[1] else ""
        )
        self._echo(f"{asked[0]}{shown}\n")
        self._reply(line if isinstance(line, str) else END_OF_INPUT)

    def _send_next(self) -> None:
        held = self._held.get(self._calls[-1]) if self._calls else None
        if not self._waits or not held:
            return
        frame = held.popleft()
        self._waits = False
        if frame["op"] == "answer":
            del self._held[self._calls.pop()]
        try:
            self._reply(json.dumps(frame))
        except (TypeError, ValueError) as error:
            self._reply(
                json.dumps({"op": "answer", "error": f"The answer cannot be sent: {error}"})
            )
