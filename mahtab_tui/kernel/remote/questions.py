"""Asks the user what a command on the way to another machine wants to know: a password, whether a
host's key is right."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

Ask = Callable[[str, bool], str | None]
"""Asks the user, and waits. Arguments: the prompt, and whether the answer is hidden. None if there
is no answer."""

_LONGEST = 4_000
"""Characters of a prompt."""


class Questions:
    """A folder of the user's own with a program for SSH_ASKPASS and SUDO_ASKPASS, and the socket
    where it asks. Close it."""

    def __init__(self, ask: Ask) -> None:
        """Raises `OSError`."""
        self._ask = ask
        self.waits = False
        """Whether the user is being asked."""
        self._folder = tempfile.mkdtemp(prefix="mahtab-")
        program, self._path = os.path.join(self._folder, "askpass"), os.path.join(self._folder, "s")
        script = Path(__file__).with_name("askpass.py")
        Path(program).write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(script))} "$@"\n',
            "utf-8",
        )
        os.chmod(program, 0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen()
        # Older versions of ssh ask that way only where there is a DISPLAY.
        self.env = {
            "SSH_ASKPASS": program,
            "SSH_ASKPASS_REQUIRE": "force",
            "SUDO_ASKPASS": program,
            "MAHTAB_ASKPASS": self._path,
        }
        self.env["DISPLAY"] = os.environ.get("DISPLAY", ":")
        threading.Thread(target=self._serve, name="mahtab-askpass", daemon=True).start()

    def close(self) -> None:
        """Ask nothing more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            with asking, contextlib.suppress(OSError):
                read = b"".join(iter(lambda: asking.recv(4096), b""))  # noqa: B023
                prompt = read.decode(errors="replace")[:_LONGEST]
                self.waits = True
                try:
                    answer = self._ask(prompt, "(yes/no" not in prompt)
                finally:
                    self.waits = False
                if answer is not None:
                    asking.sendall(b"=" + answer.encode())
