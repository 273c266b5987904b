"""Streams on descriptors 1 and 2, and the output limit of a model's cells."""

from __future__ import annotations

import contextlib
import io
from typing import TextIO

MAX_OUTPUT_CHARS = 10_000
"""Characters that a model's cell may print."""


class OutputLimitError(RuntimeError):
    """Code has printed too much."""

    # So that tracebacks name it without the path of this file.
    __module__ = "builtins"

    def __init__(self, limit_chars: int) -> None:
        super().__init__(
            f"more than {limit_chars:,} characters were printed; the rest was not shown. Print less: slice the value, or "
            "look at it with peek(text, n) or grep(text, pattern)."
        )


class LimitedOutput(io.TextIOBase):
    """A text stream that raises `OutputLimitError` after some characters."""

    def __init__(
        self,
        stream: TextIO | None = None,
        limit: int = MAX_OUTPUT_CHARS,
        sharing: LimitedOutput | None = None,
    ) -> None:
        """Begin with the whole limit.

        Args:
            stream: Where the text goes; without one, it is kept for `getvalue`.
            limit: Number of characters.
            sharing: Another stream; the characters of both count together.
        """
        super().__init__()
        self._stream: TextIO = io.StringIO() if stream is None else stream
        self.limit = limit
        self._counter: LimitedOutput = self if sharing is None else sharing._counter
        """The stream that counts."""
        self._remaining_chars = limit

    def take(self, text: str) -> str:
        """Return as much of a text as the limit still allows, and count it."""
        head = text[: self._counter._remaining_chars]
        self._counter._remaining_chars -= len(head)
        return head

    def write(self, text: str) -> int:
        head = self.take(text)
        self._stream.write(head)
        if len(head) < len(text):
            raise OutputLimitError(self.limit)
        return len(text)

    def getvalue(self) -> str:
        """Return the text of a stream that keeps it. Raises `io.UnsupportedOperation` otherwise."""
        if not isinstance(self._stream, io.StringIO):
            raise io.UnsupportedOperation("the text went to another stream")
        return self._stream.getvalue()

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def fileno(self) -> int:
        return self._stream.fileno()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def open_stdout(fd: int) -> io.TextIOWrapper:
    """Open a stream that is buffered in C, because a write per print costs twenty times as much.

    Args:
        fd: Stays open when the stream is closed.
    """
    return io.TextIOWrapper(_open_buffer(fd), "utf-8", "backslashreplace", "\n")


def _open_buffer(fd: int) -> io.BufferedWriter:
    return io.BufferedWriter(io.FileIO(fd, "w", closefd=False))


class ErrorStream(io.TextIOWrapper):
    """Flushes stdout before each write, so that the output stays in order."""

    def __init__(self, fd: int, stdout: TextIO) -> None:
        super().__init__(_open_buffer(fd), "utf-8", "backslashreplace", "\n")
        self._stdout = stdout

    def write(self, text: str) -> int:
        if not self._stdout.closed:
            self._stdout.flush()
        written_chars = super().write(text)
        self.flush()
        return written_chars


def flush(*streams: TextIO | None) -> None:
    """Flush streams as far as possible: cells may have closed or replaced them."""
    for stream in streams:
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()


def shorten(text: str, end_chars: int) -> str:
    """Return a text with a note in place of its middle, if it is long.

    Args:
        end_chars: Characters to keep at each end.
    """
    omitted_chars = len(text) - 2 * end_chars
    if omitted_chars <= 0:
        return text
    return f"{text[:end_chars]}{omission(omitted_chars)}{text[len(text) - end_chars :]}"


def omission(count: int) -> str:
    """Return the lines that stand for omitted characters."""
    return f"\n… {count:,} characters left out …\n"
