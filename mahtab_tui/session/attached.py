"""Reads the texts and pictures mentioned in questions."""

from __future__ import annotations

import base64
import codecs
import contextlib
import io
import itertools
import os
import re
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple

from mahtab_tui.bus.terminal_screen import escape_output
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.knowledge.confined_folder import (
    BinaryFile,
    byte_order_mark,
    decode,
    marked_encoding,
    single_byte_encoding,
)
from mahtab_tui.llm.pictures import (
    HEAD,
    LARGEST_FILE,
    EncodedPicture,
    PictureError,
    PictureSize,
    is_picture,
    scale_picture,
    size_from_head,
)
from mahtab_tui.system.processes import tie_to_parent

_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"(?P<quoted_range>:[0-9]{1,9}(?:-[0-9]{0,9})?(?![0-9]))?
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
      | !`(?P<command>[^`\n]+)`
    )""",
    re.VERBOSE,
)
_RANGE = re.compile(r":([0-9]{1,9})(?:-([0-9]{0,9}))?$")
_UNQUOTED = re.compile(r"""[^\s"'`:]*[^\s"'`:.,;!?)\]}>]""")
_BEGUN = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CLOSING = ".,;:!?)]}>"
LINES, CHARACTERS = 50, 10_000
"""A text with more lines or characters counts as large."""
_LONGEST_PARTIAL = 1_000
"""Characters before the cursor to search for the start of a mention."""


class Mention(NamedTuple):
    kind: Literal["path", "variable", "command"]
    name: str
    """The path, the variable's name, or the command."""
    start: int | None = None
    end: int | None = None
    """First and last line of a file, from 1; None for the whole file, or up to its end."""

    @property
    def label(self) -> str:
        """The mention as the user writes it."""
        if self.kind == "variable":
            return f"${self.name}"
        if self.kind == "command":
            return f"!`{self.name}`"
        lines = (
            ""
            if self.start is None
            else f":{self.start}"
            if self.end == self.start
            else f":{self.start}-{'' if self.end is None else self.end}"
        )
        name = self.name if _UNQUOTED.fullmatch(self.name) else f'"{self.name}"'
        return f"@{name}{lines}"


def find_mentions(question: str) -> list[Mention]:
    """Return the mentions in a question, in order and without duplicates. They need not exist: an
    ``@`` may also be a decorator."""
    return list(dict.fromkeys(_iter_mentions(question)))


def _iter_mentions(question: str) -> Iterator[Mention]:
    for found in _MENTION.finditer(question):
        if found["name"]:
            yield Mention("variable", found["name"])
        elif found["command"]:
            if command := found["command"].strip():
                yield Mention("command", command)
        elif found["quoted"]:
            yield _path_mention(found["quoted"], found["quoted_range"] or "")
        elif path := found["path"].rstrip(_CLOSING):
            lines = _RANGE.search(path)
            yield (
                _path_mention(path[: lines.start()], lines[0])
                if lines and lines.start()
                else _path_mention(path, "")
            )


def _path_mention(path: str, lines: str) -> Mention:
    found = _RANGE.fullmatch(lines)
    if found is None:
        return Mention("path", path)
    start = max(1, int(found[1]))
    end = start if found[2] is None else int(found[2]) if found[2] else None
    return Mention("path", path, start, end)


def is_large(text: str) -> bool:
    """Return whether a text is so large that the editor collapses it when it is pasted."""
    return text.count("\n") >= LINES or len(text) > CHARACTERS


class MentionChip(NamedTuple):
    """The preview of a mention before the question is sent."""

    label: str
    size: str
    """The size in words; for a variable, its type and shape."""
    missing: bool = False
    picture: bool = False
    """Whether it is also sent as a picture."""


class PartialMention(NamedTuple):
    """A mention that is still being typed."""

    kind: Literal["path", "variable"]
    stem: str
    quoted: bool


def partial_mention(text: str) -> PartialMention | None:
    """Return the mention that ends at the cursor, if any."""
    found = _BEGUN.search(text, max(0, len(text) - _LONGEST_PARTIAL))
    if found is None:
        return None
    if found["name"] is not None:
        return PartialMention("variable", found["name"], quoted=False)
    quoted = found["quoted"]
    return (
        PartialMention("path", found["path"], quoted=False)
        if quoted is None
        else PartialMention("path", quoted, quoted=True)
    )


LONGEST = 60_000
"""Maximum characters of an attachment; longer ones are shortened."""
COMMAND_SECONDS = 30.0
_BYTES = 4 * LONGEST
"""Maximum bytes to read from a file; the rest would not fit the text anyway."""
_SEARCHED = 200_000_000
"""Maximum bytes of a file to search for lines."""
_WIDEST = 4
"""Maximum bytes of a character."""
_WITHIN_CHARACTERS = bytes(range(0x80, 0xC0))
"""Bytes that never start a character in UTF-8."""
_OUTLINED = 300
"""Maximum number of files of a folder to list."""
_LISTING_SECONDS = 5.0
_MOST_COUNTED = 5_000
"""Maximum number of files of a folder to count."""


def format_size(count: int) -> str:
    """Format a number of bytes: ``980 B``, ``12.4 kB``, ``3.1 MB``."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


@contextlib.contextmanager
def open_without_links(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose path contains no links. Raises `OSError`, also if a pipe or a link has
    since replaced the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file")
        yield file


def read_text(
    path: Path, mention: Mention, size: str, stopped: Callable[[], bool]
) -> tuple[str, str]:
    """Return the text of a file or of some of its lines, and its size in words. Raises `OSError`
    and `BinaryFile`."""
    with open_without_links(path) as file:
        if mention.start is None:
            return _read_ends(file, os.fstat(file.fileno()).st_size), size
        end = None if mention.end is None else max(mention.start, mention.end)
        lines: list[bytes] = []
        room, rest = _BYTES, ""
        for line in itertools.islice(
            _read_lines(_utf8_reader(file), stopped), mention.start - 1, end
        ):
            lines.append(line[:room])
            room -= len(line)
            if room <= 0:
                rest = "\n[… the rest is left out]"
                break
    if not lines:
        return "[the file has no such lines]", "0 lines"
    data = b"".join(lines)
    text = _decode_ends(data, b"")[0] if rest else decode(data)
    return shorten_middle(text) + rest, f"{len(lines):,} line{'s' * (len(lines) != 1)}"


def _utf8_reader(file: IO[bytes]) -> Callable[[int], bytes]:
    """Return a function that reads a line, limited to a number of bytes or characters.

    Files marked as UTF-16 or UTF-32, in which a newline byte need not end a line, are converted to
    UTF-8.
    """
    encoding = marked_encoding(file.read(4))
    file.seek(0)
    if encoding in (None, "utf-8-sig"):
        return file.readline
    text = io.TextIOWrapper(file, encoding, "replace", newline="\n")
    return lambda most: text.readline(most).encode()


def _read_lines(readline: Callable[[int], bytes], stopped: Callable[[], bool]) -> Iterator[bytes]:
    """Yield lines, each truncated to `_BYTES`. Raises `OSError` after `_SEARCHED` bytes, and if
    stopped."""
    whole = True
    searched = 0
    for piece in iter(lambda: readline(_BYTES), b""):
        searched += len(piece)
        if searched > _SEARCHED:
            raise OSError(0, f"lines are looked for in the first {format_size(_SEARCHED)} only")
        if stopped():
            raise OSError(0, "stopped")
        if whole:
            yield piece
        whole = piece.endswith(b"\n")


def _read_ends(file: IO[bytes], size: int) -> str:
    """Return the text of a file; only head and tail if it is large."""
    if size <= _BYTES:
        return shorten_middle(decode(file.read(_BYTES)))
    head = file.read(_BYTES // 2)
    file.seek((size - _BYTES // 2) // _WIDEST * _WIDEST)
    tail = file.read(_BYTES // 2 + _WIDEST)
    between = f"\n[… {size - len(head) - len(tail):,} bytes left out …]\n"
    return shorten_middle(between.join(_decode_ends(head, tail)))


def _decode_ends(head: bytes, tail: bytes) -> tuple[str, str]:
    """Decode both ends of a file with the same encoding, dropping partial characters. Raises
    `BinaryFile`."""
    if (mark := byte_order_mark(head)) not in (b"", codecs.BOM_UTF8):
        return decode(head), decode(mark + tail)
    if b"\0" in head or b"\0" in tail:
        raise BinaryFile
    begun = len(tail) - len(tail.lstrip(_WITHIN_CHARACTERS))
    try:
        return _decode_prefix(head.removeprefix(mark)), _decode_prefix(
            tail[begun:] if begun < _WIDEST else tail
        )
    except UnicodeDecodeError:
        encoding = single_byte_encoding(head + tail)
        return head.decode(encoding), tail.decode(encoding)


def _decode_prefix(data: bytes) -> str:
    """Decode data that may end in the middle of a character. Raises `UnicodeDecodeError`."""
    return codecs.getincrementaldecoder("utf-8")().decode(data)


def shorten_middle(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head, tail = LONGEST * 2 // 3, LONGEST // 3
    return f"{text[:head]}\n[… {len(text) - LONGEST:,} characters left out …]\n{text[-tail:]}"


def outline(folder: Path, stopped: Callable[[], bool]) -> tuple[str, str]:
    """List the source files below a folder with their sizes; also returns the number of files in
    words."""
    from mahtab_tui.knowledge.code import CodeError, list_files

    try:
        found, is_part = list_files(folder, _MOST_COUNTED, _LISTING_SECONDS, stopped)
    except CodeError as error:
        raise OSError(0, str(error)) from None
    lines, count = [], len(found)
    for path in found[:_OUTLINED]:
        try:
            lines.append(f"{path}  {format_size(os.stat(folder / path).st_size)}")
        except OSError:
            lines.append(path)
    if is_part:
        lines.append("[… listing the files took too long: there may be more]")
    more = f"{count - _OUTLINED:,}{' or more' if count == _MOST_COUNTED else ''}"
    return "\n".join(
        [*lines, *([f"… and {more} files more"] if count > _OUTLINED else [])]
    ) or "[no files]", f"{count:,} file{'s' * (count != 1)}"


def run_command(command: str, cwd: str, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Run a command; returns its output and errors, and its exit code or size in words. When the
    time is up, it is killed together with its children."""
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            tie_to_parent(["/bin/sh", "-c", command]),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ends_at, why = time.monotonic() + COMMAND_SECONDS, ""
        while not why:
            try:
                running.wait(0.05)
                break
            except subprocess.TimeoutExpired:
                if stopped():
                    why = "stopped"
                elif time.monotonic() > ends_at:
                    why = f"stopped after {COMMAND_SECONDS:.0f} s"
                elif output.seek(0, os.SEEK_END) > 50 * _BYTES:
                    why = "stopped: it prints too much"
        if why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(0)
        text = escape_output(_read_ends(output, size))
    ended = why or (f"exit code {running.returncode}" if running.returncode else "")
    return "\n".join(
        part for part in (text.rstrip("\n"), f"[{ended}]" if ended else "") if part
    ), ended or format_size(size)


CellPictures = Callable[[int], Sequence[str]]
"""Returns the pictures (base64) that a cell has displayed, by its number. Raises `StoreError`."""


SizedPicture = tuple[EncodedPicture, str]
"""A picture and its size in words: pixels and bytes."""


def measure_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes from the head of its file; None for other files. Raises
    `PictureError` and `OSError`."""
    with open_without_links(path) as file:
        if not is_picture(file.read(HEAD)):
            return None
        file.seek(0)
        return _format_measures(size_from_head(file), os.fstat(file.fileno()).st_size)


def load_file(path: Path) -> SizedPicture:
    """Load a picture file. Raises `PictureError` and `OSError`."""
    with open_without_links(path) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise PictureError(
            f"The picture's file is too large: at most {format_size(LARGEST_FILE)} are read."
        )
    return _with_size(data)


def measure_variable(kernel: Kernel, name: str) -> str | None:
    """Return the size of a variable's picture without drawing it; None if the variable is not a
    picture. Raises `KernelError`."""
    look = InspectorClient(kernel)
    found = look.measure((("name", name),))
    if found is None:
        return None
    width, height = found
    return f"{width:,} × {height:,} px" if width else "drawn when sent"


def draw_variable(kernel: Kernel, name: str) -> SizedPicture:
    """Draw a variable's picture, which may run its own code. Raises `PictureError` and
    `KernelError`."""
    return _with_size(InspectorClient(kernel).picture((("name", name),)))


def measure_display(data: str) -> str:
    """Return the pixels and bytes of a displayed picture. Raises `PictureError`."""
    return _format_measures(size_from_head(io.BytesIO(base64.b64decode(data))), len(data) * 3 // 4)


def load_display(data: str) -> SizedPicture:
    """Load a displayed picture. Raises `PictureError`."""
    return _with_size(base64.b64decode(data))


def _with_size(data: bytes) -> SizedPicture:
    was, picture = size_from_head(io.BytesIO(data)), scale_picture(data)
    of = (
        ""
        if max(was.width, was.height) == max(picture.width, picture.height)
        else f" of {was.width:,} × {was.height:,}"
    )
    frame = ", first frame" if was.moves else ""
    return (
        picture,
        f"{picture.width:,} × {picture.height:,} px{of}, {format_size(picture.bytes)}{frame}",
    )


def _format_measures(measures: PictureSize, size: int) -> str:
    return f"{measures.width:,} × {measures.height:,} px, {format_size(size)}{', first frame' if measures.moves else ''}"
