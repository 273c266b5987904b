"""A cell run by a Jupyter kernel, and its calls to the session."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Literal

from mahtab_tui.kernel.base import KernelHost, Status
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.requests import CallAnswers, CellEnd, HostCall, checked
from mahtab_tui.worker.frames import Frame

Channel = Literal["shell", "iopub", "stdin", "control"]
Message = Mapping[str, Any]
"""With ``header``, ``parent_header`` and ``content``."""

OnMessage = Callable[[Channel, Message], None]


END_OF_INPUT = "\x04"


class KernelCalls:
    def __init__(
        self,
        host: KernelHost,
        token: str,
        reply: Callable[[str], None],
        echo: Callable[[str], None],
    ) -> None:
        """token: the prefix of marked requests. echo: shows prompts and typed lines, because the
        kernel does not."""
        self._token = token
        self._reply = reply
        self._echo = echo
        self._answers = CallAnswers(host, self._answer)
        self._ids = itertools.count(1)
        self._open: dict[int, tuple[str, bool] | None] = {}
        """Calls; prompts of the user's code with whether the answer is hidden."""

    def on_prompt(self, prompt: str, password: bool) -> None:
        """Raises `KernelError`, and `ValueError` if a marked request is malformed."""
        number, question = next(self._ids), None
        if prompt.startswith(self._token):
            frame = checked(dict[str, Any], json.loads(prompt.removeprefix(self._token)))
            call = checked(HostCall, {**frame, "id": number})
        else:
            question = prompt, password
            call = HostCall(number, "input", {"prompt": prompt, "password": password})
        self._open[number] = question
        self._answers.begin(call)

    def quit(self) -> None:
        self._answers.begin(HostCall(next(self._ids), "quit", {}))

    def end(self) -> None:
        self._open.clear()
        self._answers.cancel_all()

    def _answer(self, answer: Frame) -> None:
        question = self._open.pop(answer["id"], ())
        if question is None:
            try:
                self._reply(json.dumps(answer))
            except (TypeError, ValueError) as error:
                self._reply(json.dumps({"error": f"The answer cannot be sent: {error}"}))
        elif question:
            prompt, hidden = question
            line = answer.get("value")
            line = line if isinstance(line, str) else END_OF_INPUT
            typed = "" if hidden or line == END_OF_INPUT else line
            self._echo(f"{prompt}{answer.get('error') or typed}\n")
            self._reply(line)


PICTURES = ("image/png", "image/jpeg")
TEXTS = ("text/markdown", "text/html")
REPLY = 3.0
LARGEST = {**dict.fromkeys(PICTURES, 7_000_000), **dict.fromkeys(TEXTS, 300_000)}
"""Maximum characters of each form to show."""


class JupyterCell:
    def __init__(self, running: RunningCell, request: str) -> None:
        """request: the id of the message that runs the cell."""
        self.running = running
        self.request = request
        self.replied: Future[Mapping[str, Any]] = Future()
        self._reply: Mapping[str, Any] | None = None
        self._idle = 0.0
        self._error: Mapping[str, Any] | None = None
        self._clear = False
        self._rows = 0

    def add_message(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "stream":
            self._print(str(content.get("text", "")))
        elif kind in ("display_data", "update_display_data", "execute_result"):
            self._show(content.get("data"), value=kind == "execute_result")
        elif kind == "error":
            self._error = content
        elif kind == "clear_output":
            self._clear = True
            if not content.get("wait"):
                self._cleared()
        elif kind == "status" and content.get("execution_state") == "idle":
            self._idle = time.monotonic()
            self._settle()

    def reply(self, content: Mapping[str, Any]) -> None:
        self._reply = content
        self._settle()

    def expect_reply(self) -> None:
        if self._idle and time.monotonic() - self._idle > REPLY and self._reply is None:
            name = "KeyboardInterrupt" if self.running.interrupting else "RuntimeError"
            self.fail(name, "the kernel did not report how the cell ended")

    def fail(self, error: str, message: str) -> None:
        self.reply({"status": "error", "ename": error, "evalue": message})

    def payloads(self) -> bool:
        """Show the help in the reply; returns whether the cell has called `exit()`."""
        payload = (self._reply or {}).get("payload")
        payloads = payload if isinstance(payload, list) else []
        payloads = [each for each in payloads if isinstance(each, dict)]
        for each in payloads:
            if each.get("source") == "page" and isinstance(each.get("data"), dict):
                text = each["data"].get("text/plain")
                if isinstance(text, str):
                    text = text.rstrip("\n") + "\n"
                    self.running.add_display({"mime": "text/plain", "data": "", "text": text})
        return any(each.get("source") == "ask_exit" for each in payloads)

    def finish(self, content: Mapping[str, Any], duration: float) -> None:
        """content: its changes and the working directory. Raises `KernelError` if it is
        malformed."""
        reply = self._reply or {}
        error = self._error or (reply if reply.get("status") == "error" else None)
        status, pieces = Status.OK, []
        if error is not None:
            interrupted = error.get("ename") in ("KeyboardInterrupt", "InterruptedError")
            status = Status.INTERRUPTED if interrupted else Status.ERROR
            pieces.append(("traceback", _traceback(error)))
        elif reply.get("status") in ("aborted", "abort"):
            status = Status.INTERRUPTED
            text = "The kernel did not run the cell, because an earlier one failed.\n"
            pieces.append(("traceback", text))
        report = {"changes": [], "cwd": "", **content, "frames": [], "duration": duration}
        end = {**report, "cell": self.running.cell, "status": status, "pieces": pieces}
        self.running.done(checked(CellEnd, end))

    def _settle(self) -> None:
        if self._idle and self._reply is not None and not self.replied.done():
            self.replied.set_result(self._reply)

    def _print(self, text: str) -> None:
        if self._clear:
            self._cleared()
        self._rows += text.count("\n")
        self.running.add_output(text)

    def _cleared(self) -> None:
        self._clear = False
        self.running.add_output("\r" + (f"\x1b[{self._rows}A" if self._rows else "") + "\x1b[J")
        self._rows = 0

    def _show(self, data: object, *, value: bool) -> None:
        if not isinstance(data, Mapping):
            return
        if self._clear:
            self._cleared()
        text = data.get("text/plain")
        text = text if isinstance(text, str) else ""
        text = text if not text or text.endswith("\n") else f"{text}\n"
        for mime, most in LARGEST.items():
            form = data.get(mime)
            if not isinstance(form, str) or not 0 < len(form) <= most:
                continue
            if mime in PICTURES:
                form = form.replace("\n", "")
                try:
                    base64.b64decode(form, validate=True)
                except ValueError:
                    continue
            self._rows = 0
            self.running.add_display({"mime": mime, "data": form, "text": text or f"<{mime}>\n"})
            return
        if not text:
            text = f"<{', '.join(sorted(map(str, data))[:5])}>\n"
        if value:
            self._rows = 0
            self.running.add_display({"mime": "", "text": text})
        else:
            self._print(text)


def _traceback(error: Mapping[str, Any]) -> str:
    lines = error.get("traceback")
    text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
    text = text or f"{error.get('ename', 'Error')}: {error.get('evalue', '')}"
    return text if text.endswith("\n") else text + "\n"


def parent_id(message: Message) -> str:
    parent = message.get("parent_header")
    return str(parent.get("msg_id", "")) if isinstance(parent, Mapping) else ""
