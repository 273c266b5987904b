"""A cell that a Jupyter kernel runs: its messages become our output."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.jupyter.wire import Message
from mahtab_tui.kernel.protocol import CellEnd, checked
from mahtab_tui.kernel.values import Status

PICTURES = ("image/png", "image/jpeg")
TEXTS = ("text/markdown", "text/html")
REPLY = 3.0
"""Seconds after the end of a cell's output in which its reply must come."""
LARGEST = {**dict.fromkeys(PICTURES, 7_000_000), **dict.fromkeys(TEXTS, 300_000)}
"""The most characters of each form that are shown; otherwise the text is."""


class JupyterCell:
    """One cell until its end. Used by the thread that reads the kernel's messages."""

    def __init__(self, running: RunningCell, request: str) -> None:
        """request: the id of the message that runs it; empty for nested cells."""
        self.running = running
        self.request = request
        self.sent = False
        """The kernel gets it, or has got it."""
        self.sent_at = 0.0
        """When it was sent, as `time.monotonic` has it."""
        self.replied: Future[Mapping[str, Any]] = Future()
        """The reply's content, once all output is there."""
        self._reply: Mapping[str, Any] | None = None
        self._idle = 0.0
        """When its output ended, as `time.monotonic` has it; 0 before."""
        self._begun = False
        """The kernel has told something of it."""
        self._error: Mapping[str, Any] | None = None
        self._clear = False
        self._rows = 0
        """Lines of text since the last display."""

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add what the kernel publishes."""
        self._begun = True
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
        """A kernel that has failed inside may end a cell without a reply."""
        if self._idle and time.monotonic() - self._idle > REPLY and self._reply is None:
            name = "KeyboardInterrupt" if self.running.interrupting else "RuntimeError"
            self.reply(
                {
                    "status": "error",
                    "ename": name,
                    "evalue": "the kernel did not report how the cell ended",
                }
            )

    def connection_was_lost(self) -> str:
        """Why this cell has no end although the kernel is through with it, as a sentence. Empty if
        all is there but the end of its output."""
        if self._reply is not None:
            self._idle = time.monotonic()
            self._settle()
            return ""
        if self._begun:
            return "The connection was lost while it ran: how it ended is unknown, and some of its output may be missing."
        return "The connection was lost as the cell was sent: whether it ran is unknown."

    def payloads(self) -> bool:
        """Show the help that the reply carries beside its end; returns whether the cell has called
        `exit()`."""
        payload = (self._reply or {}).get("payload")
        told = (
            [each for each in payload if isinstance(each, dict)]
            if isinstance(payload, list)
            else []
        )
        for each in told:
            if each.get("source") == "page" and isinstance(each.get("data"), dict):
                text = each["data"].get("text/plain")
                if isinstance(text, str):
                    self.running.shown(
                        {"mime": "text/plain", "data": "", "text": text.rstrip("\n") + "\n"}
                    )
        return any(each.get("source") == "ask_exit" for each in told)

    def finish(self, told: Mapping[str, Any], duration: float) -> None:
        """End the cell. told: its changes and the working directory, as the kernel's helper tells.
        Raises `KernelError` if that is malformed."""
        reply = self._reply or {}
        error = self._error or (reply if reply.get("status") == "error" else None)
        status, pieces = Status.OK, []
        if error is not None:
            interrupted = error.get("ename") in ("KeyboardInterrupt", "InterruptedError")
            status = Status.INTERRUPTED if interrupted else Status.ERROR
            pieces.append(("traceback", _traceback(error)))
        elif reply.get("status") in ("aborted", "abort"):
            status = Status.INTERRUPTED
            pieces.append(
                ("traceback", "The kernel did not run the cell, because an earlier one failed.\n")
            )
        end = {
            "cell": self.running.cell,
            "status": status,
            "pieces": pieces,
            "frames": [],
            "duration": duration,
        }
        self.running.done(checked(CellEnd, {"changes": [], "cwd": "", **told, **end}))

    def _settle(self) -> None:
        if self._idle and self._reply is not None and not self.replied.done():
            self.replied.set_result(self._reply)

    def _print(self, text: str) -> None:
        if self._clear:
            self._cleared()
        self._rows += text.count("\n")
        self.running.printed(text)

    def _cleared(self) -> None:
        """Take back the lines that were printed, as far as a terminal could."""
        self._clear = False
        self.running.printed("\r" + (f"\x1b[{self._rows}A" if self._rows else "") + "\x1b[J")
        self._rows = 0

    def _show(self, data: object, *, value: bool) -> None:
        if not isinstance(data, Mapping):
            return
        if self._clear:
            self._cleared()
        text = data.get("text/plain")
        text = text if isinstance(text, str) else ""
        text = text if not text or text.endswith("\n") else f"{text}\n"
        for mime in (*PICTURES, *TEXTS):
            form = data.get(mime)
            if (
                isinstance(form, str)
                and 0 < len(form) <= LARGEST[mime]
                and (mime in TEXTS or _is_base64(form))
            ):
                self._rows = 0
                self.running.shown(
                    {
                        "mime": mime,
                        "data": form.replace("\n", "") if mime in PICTURES else form,
                        "text": text or f"<{mime}>\n",
                    }
                )
                return
        if not text:
            text = f"<{', '.join(sorted(map(str, data))[:5])}>\n"
        if value:
            self._rows = 0
            self.running.shown({"mime": "", "text": text})
        else:
            self._print(text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except ValueError:
        return False
    return True


def _traceback(error: Mapping[str, Any]) -> str:
    lines = error.get("traceback")
    text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
    text = text or f"{error.get('ename', 'Error')}: {error.get('evalue', '')}"
    return text if text.endswith("\n") else text + "\n"


def parent_of(message: Message) -> str:
    """The id of the message that this one answers; empty if it answers none."""
    parent = message.get("parent_header")
    return str(parent.get("msg_id", "")) if isinstance(parent, Mapping) else ""
