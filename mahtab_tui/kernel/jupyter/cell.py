"""A cell that a Jupyter kernel runs."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.messages import CellEnd, checked
from mahtab_tui.kernel.running_cell import RunningCell

REPLY_TIMEOUT_S = 3.0
"""Seconds for a cell's reply after the kernel has become idle."""
MAX_LISTED_MIMES = 5
"""Unknown forms of a display that are named."""

PICTURES = ("image/png", "image/jpeg")
TEXTS = ("text/markdown", "text/html")
MAX_FORM_CHARS = {**dict.fromkeys(PICTURES, 7_000_000), **dict.fromkeys(TEXTS, 300_000)}
"""Maximum characters of each form of a display, the best form first."""


class JupyterCell:
    """A running cell, whose messages become its output and its result."""

    def __init__(self, running: RunningCell, request: str) -> None:
        """Follow a cell.

        Args:
            running: Gets the output and the result.
            request: The id of the message that runs it.
        """
        self.running = running
        self.request = request
        self.replied: Future[Mapping[str, Any]] = Future()
        """Done when the cell has ended, and all its output has arrived."""
        self._reply: Mapping[str, Any] | None = None
        self._idle_at = 0.0
        """When the kernel has become idle, as monotonic time; 0 before that."""
        self._error: Mapping[str, Any] | None = None
        self._clears_before_next = False
        """Whether the next output replaces all output so far."""
        self._printed_rows = 0
        """Rows that the cursor must go up to clear the output."""

    def add_message(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add a message of the cell that the kernel has published.

        Args:
            kind: Its type in Jupyter's protocol.
            content: Its content, which is not trusted.
        """
        if kind == "stream":
            self._print(str(content.get("text", "")))
        elif kind in ("display_data", "update_display_data", "execute_result"):
            self._show(content.get("data"), value=kind == "execute_result")
        elif kind == "error":
            self._error = content
        elif kind == "clear_output":
            self._clears_before_next = True
            if not content.get("wait"):
                self._clear_output()
        elif kind == "status" and content.get("execution_state") == "idle":
            self._idle_at = time.monotonic()
            self._settle()

    def reply(self, content: Mapping[str, Any]) -> None:
        """Add the reply to the message that runs the cell."""
        self._reply = content
        self._settle()

    def expect_reply(self) -> None:
        """Let the cell fail if its reply is missing."""
        if not self._idle_at or self._reply is not None:
            return
        if time.monotonic() - self._idle_at > REPLY_TIMEOUT_S:
            name = "RuntimeError"
            if self.running.interrupting:
                name = "KeyboardInterrupt"
            self.fail(name, "the kernel did not report how the cell ended")

    def fail(self, error: str, message: str) -> None:
        """Act as if the cell had raised an exception.

        Args:
            error: The name of its class.
            message: Its text.
        """
        self.reply({"status": "error", "ename": error, "evalue": message})

    @property
    def has_called_exit(self) -> bool:
        """Whether the cell has called `exit()`, as its reply says."""
        return any(payload.get("source") == "ask_exit" for payload in self._payloads())

    def show_help(self) -> None:
        """Show the help for which the cell has asked, which comes with its reply."""
        for payload in self._payloads():
            data = payload.get("data")
            if payload.get("source") != "page" or not isinstance(data, dict):
                continue
            text = data.get("text/plain")
            if isinstance(text, str):
                text = text.rstrip("\n") + "\n"
                self.running.add_display({"mime": "text/plain", "data": "", "text": text})

    def _payloads(self) -> list[dict[str, Any]]:
        """Return what the reply asks the interface to do."""
        payloads = (self._reply or {}).get("payload")
        if not isinstance(payloads, list):
            return []
        return [payload for payload in payloads if isinstance(payload, dict)]

    def finish(self, content: Mapping[str, Any], duration: float) -> None:
        """Set the result of the cell.

        Args:
            content: Its changes and the working directory, as the helper has sent them.
            duration: In seconds.

        Raises:
            KernelError: The content is malformed.
        """
        status, traceback_text = self._outcome()
        cell_end = {
            # The helper may leave these two out, and does not know the other fields.
            "changes": [],
            "cwd": "",
            **content,
            "frames": [],
            "duration": duration,
            "cell": self.running.cell,
            "status": status,
            "pieces": [("traceback", traceback_text)] if traceback_text else [],
        }
        self.running.done(checked(CellEnd, cell_end))

    def _outcome(self) -> tuple[Status, str]:
        """Return how the cell has ended, and its traceback, which is empty if it has none."""
        reply = self._reply or {}
        error = self._error
        if error is None and reply.get("status") == "error":
            error = reply
        if error is not None:
            is_interrupt = error.get("ename") in ("KeyboardInterrupt", "InterruptedError")
            status = Status.INTERRUPTED if is_interrupt else Status.ERROR
            return status, _traceback(error)
        if reply.get("status") in ("aborted", "abort"):
            text = "The kernel did not run the cell, because an earlier one failed.\n"
            return Status.INTERRUPTED, text
        return Status.OK, ""

    def _settle(self) -> None:
        """Let the cell end once both its reply and all its output are here."""
        if self._idle_at and self._reply is not None and not self.replied.done():
            self.replied.set_result(self._reply)

    def _print(self, text: str) -> None:
        if self._clears_before_next:
            self._clear_output()
        self._printed_rows += text.count("\n")
        self.running.add_output(text)

    def _clear_output(self) -> None:
        """Go to the start of the printed text, and erase everything from there."""
        self._clears_before_next = False
        move_up = f"\x1b[{self._printed_rows}A" if self._printed_rows else ""
        self.running.add_output(f"\r{move_up}\x1b[J")
        self._printed_rows = 0

    def _show(self, data: object, *, value: bool) -> None:
        """Show the best form of a display that we know and that is not too large.

        Args:
            data: The forms by MIME type, which may be malformed.
            value: Whether it is the value of the cell.
        """
        if not isinstance(data, Mapping):
            return
        if self._clears_before_next:
            self._clear_output()

        text = data.get("text/plain")
        if not isinstance(text, str):
            text = ""
        if text and not text.endswith("\n"):
            text += "\n"
        for mime, max_chars in MAX_FORM_CHARS.items():
            form = _read_form(data, mime, max_chars)
            if form:
                self._printed_rows = 0
                text = text or f"<{mime}>\n"
                self.running.add_display({"mime": mime, "data": form, "text": text})
                return

        # The display has only its text, or forms that we do not show, which are named.
        if not text:
            mimes = sorted(map(str, data))[:MAX_LISTED_MIMES]
            text = f"<{', '.join(mimes)}>\n"
        if value:
            self._printed_rows = 0
            self.running.add_display({"mime": "", "text": text})
        else:
            self._print(text)


def _read_form(data: Mapping[str, object], mime: str, max_chars: int) -> str:
    """Return a form of a display; empty if there is none, or if it is malformed or too large."""
    form = data.get(mime)
    if not isinstance(form, str) or len(form) > max_chars:
        return ""
    if mime not in PICTURES:
        return form
    form = form.replace("\n", "")
    try:
        base64.b64decode(form, validate=True)
    except ValueError:
        return ""
    return form


def _traceback(error: Mapping[str, Any]) -> str:
    """Return the traceback of a cell, or its last line if the kernel has sent no other."""
    lines = error.get("traceback")
    text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
    if not text:
        text = f"{error.get('ename', 'Error')}: {error.get('evalue', '')}"
    return text if text.endswith("\n") else text + "\n"
