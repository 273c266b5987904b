"""Calls from code in a Jupyter kernel to the host: questions for input that only our host
understands."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any


class HostCalls:
    """Asks the host, and runs the cells that it wants to run meanwhile."""

    def __init__(
        self, kernel: Any, token: str, session: str, run: Callable[[str], dict[str, Any]]
    ) -> None:
        """run: runs a nested cell, and tells what became of it."""
        self._kernel = kernel
        self._token = token
        self._session = session
        self._run = run

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the answer (JSON values both ways). Raises `RuntimeError` with
        the host's message."""
        self._check(name)
        question = {"op": "call", "name": name, "args": args}
        try:
            while True:
                answer = json.loads(self._kernel.raw_input(self._token + json.dumps(question)))
                if answer["op"] == "execute":
                    self._nested(answer["cell"], answer["code"])
                    question = {"op": "wait"}
                elif "error" in answer:
                    raise RuntimeError(answer["error"])
                else:
                    return answer["value"]
        except (KeyboardInterrupt, EOFError):
            self._tell({"op": "cancelled"})
            raise

    def _check(self, name: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                f"In a Jupyter kernel {name}() can only be called by the cell itself, not by a thread or a task."
            )
        header = (self._kernel.get_parent() or {}).get("header", {})
        if header.get("session") != self._session or not self._kernel._allow_stdin:
            raise RuntimeError(
                f"{name}() can only be called in a cell of the session that offers it."
            )

    def _nested(self, cell: int, code: str) -> None:
        self._tell({"op": "begin", "cell": cell})
        told: dict[str, Any] = {"status": "error", "changes": [], "cwd": ""}
        try:
            told = self._run(code)
        finally:
            self._tell({"op": "done", "cell": cell, **told})

    def _tell(self, frame: dict[str, Any]) -> None:
        """Tell the host in the order of the output. Other clients ignore messages that they do not
        know."""
        content = {"token": self._token, "frame": json.dumps(frame)}
        self._kernel.session.send(
            self._kernel.iopub_socket, "mahtab_tui", content, parent=self._kernel.get_parent()
        )
