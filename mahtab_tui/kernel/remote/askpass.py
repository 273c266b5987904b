"""Asks the user what ssh wants to know: passwords, and whether a host is the right one."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from mahtab_tui.system import start_thread

Ask = Callable[[str, bool], str | None]
"""Asks the user: the prompt, and whether the answer is hidden. Returns None if there is no
answer."""

_MAX_PROMPT_CHARS = 4_000
"""Characters of a question that the user sees."""
_RECEIVE_BYTES = 4_096
"""Bytes that are received at a time."""
_PROGRAM_MODE = 0o700
"""Only its owner reads, changes and runs the program."""

_PROGRAM_CODE = """\
import os, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect(os.environ["MAHTAB_ASKPASS"])
    asking.sendall(" ".join(sys.argv[1:]).encode(errors="replace"))
    asking.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: asking.recv(4096), b""))
if not answer:
    sys.exit(1)
sys.stdout.buffer.write(answer[1:] + b"\\n")
"""
"""The program, which ssh runs when it needs a password."""


class AskpassServer:
    """A program for SSH_ASKPASS, and the socket on which it asks."""

    def __init__(self, ask: Ask) -> None:
        """Start to answer. Raises `OSError`."""
        self._ask = ask
        self.is_asking = False
        """Whether the user is being asked."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._folder = tempfile.mkdtemp(prefix="mahtab-")
        socket_path = os.path.join(self._folder, "s")
        try:
            program = _write_program(self._folder)
            # It fails if the path of the temporary folder is too long.
            self._listener.bind(socket_path)
        except OSError:
            self.close()
            raise
        self._listener.listen()
        self.env = {
            "SSH_ASKPASS": program,
            "SSH_ASKPASS_REQUIRE": "force",
            "MAHTAB_ASKPASS": socket_path,
            # Older versions of ssh ask only if there is a display.
            "DISPLAY": os.environ.get("DISPLAY", ":"),
        }
        """Variables of ssh, by which it finds the program."""
        start_thread("mahtab-askpass", self._serve)

    def close(self) -> None:
        """Answer no more questions, and remove the program."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        """Answer the program's questions until the server is closed."""
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            # ssh takes a connection that is closed for no answer.
            with connection, contextlib.suppress(OSError, UnicodeEncodeError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        """Ask the user one question, and send the answer.

        Raises `OSError`, or `UnicodeEncodeError` for an answer that is no text.
        """
        question = b"".join(iter(lambda: connection.recv(_RECEIVE_BYTES), b""))
        prompt = question.decode(errors="replace")[:_MAX_PROMPT_CHARS]
        # Everything but the question about an unknown host's key may be a password.
        is_hidden = "(yes/no" not in prompt
        self.is_asking = True
        try:
            answer = self._ask(prompt, is_hidden)
        finally:
            self.is_asking = False
        # The sign tells an empty answer from none.
        if answer is not None:
            connection.sendall(b"=" + answer.encode(errors="surrogateescape"))


def _write_program(folder: str) -> str:
    """Write the program for ssh; returns its path. Raises `OSError`."""
    path = os.path.join(folder, "askpass")
    command = shlex.join([sys.executable, "-I", "-S", "-c", _PROGRAM_CODE])
    Path(path).write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
    os.chmod(path, _PROGRAM_MODE)
    return path
