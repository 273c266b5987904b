"""Calls to the session by code in a Jupyter kernel."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from mahtab_tui.kernel.call_answers import CallAnswers
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostCall, KernelHost
from mahtab_tui.kernel.messages import CallMessage, checked
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame

END_OF_INPUT = "\x04"
"""The answer to a prompt of the user's code that ends its input."""


class _Prompt(NamedTuple):
    """A prompt of the user's code."""

    text: str
    is_password: bool
    """Whether the answer is not shown."""


class KernelCalls:
    """Calls by code in the kernel, which reach us as requests for input.

    A request is either a prompt of the user's code, such as `input()`, or a call by our helper in the
    kernel, which puts a token before it.
    """

    def __init__(
        self,
        host: KernelHost,
        token: str,
        reply: Callable[[str], None],
        echo: Callable[[str], None],
    ) -> None:
        """Create an empty list of calls.

        Args:
            host: Serves the calls.
            token: The prefix of the helper's requests.
            reply: Sends the answer to a request.
            echo: Shows prompts and typed lines, because the kernel does not.
        """
        self._host = host
        self._token = token
        self._reply = reply
        self._echo = echo
        self._answers = CallAnswers(host, self._answer)
        self._ids = itertools.count(1)
        self._open_calls: dict[int, CallMessage] = {}
        """The helper's calls that are not answered, by number."""
        self._open_prompts: dict[int, _Prompt] = {}
        """The user's code's prompts that are not answered, by number."""

    def on_prompt(self, prompt: str, password: bool) -> None:
        """Serve a request for input.

        Raises `KernelError`, and `ValueError` if one of the helper is malformed.
        """
        number = next(self._ids)
        if prompt.startswith(self._token):
            frame = checked(dict[str, Any], json.loads(prompt.removeprefix(self._token)))
            call = checked(CallMessage, {**frame, "id": number})
            self._open_calls[number] = call
        else:
            call = CallMessage(number, "input", {"prompt": prompt, "password": password})
            self._open_prompts[number] = _Prompt(prompt, password)
        self._answers.begin(call)

    def quit(self) -> None:
        """Tell the host that a cell has called `exit()`. The end of the cell does not cancel that."""
        start_thread("mahtab-quit", self._host.call, HostCall("quit", {}, Cancellation()))

    def end(self) -> None:
        """Cancel all calls, because their cell has ended."""
        self._open_calls.clear()
        self._open_prompts.clear()
        self._answers.cancel_all()

    def _answer(self, answer: Frame) -> None:
        """Send an answer, unless the cell has ended."""
        # `end` may be called on another thread meanwhile, so each is taken out in one step.
        open_call = self._open_calls.pop(answer["id"], None)
        open_prompt = self._open_prompts.pop(answer["id"], None)
        if open_call is not None:
            try:
                self._reply(json.dumps(answer))
            except (TypeError, ValueError) as error:
                self._reply(json.dumps({"error": f"The answer cannot be sent: {error}"}))
        elif open_prompt is not None:
            self._answer_prompt(open_prompt, answer)

    def _answer_prompt(self, prompt: _Prompt, answer: Frame) -> None:
        """Send a typed line, and show it after its prompt."""
        line = answer.get("value")
        if not isinstance(line, str):
            line = END_OF_INPUT
        shown_line = "" if prompt.is_password or line == END_OF_INPUT else line
        self._echo(f"{prompt.text}{answer.get('error') or shown_line}\n")
        self._reply(line)
