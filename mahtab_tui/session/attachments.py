"""What goes with a question: files, outlines of folders, variables, what a command prints. A person has pointed at it in typing the question."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from mahtab_tui.kernel.base import Completions, Kernel, KernelError
from mahtab_tui.knowledge.encodings import BinaryFile, decoded
from mahtab_tui.session.mentions import Chip, Mention, begun, is_large, mentions

LONGEST = 60_000
"""Characters of one attachment; of more the head and the tail are told."""
COMMAND_SECONDS = 30.0
_BYTES = 4 * LONGEST
"""Of a file without a range."""
_OUTLINED = 300
"""Files of a folder that are listed."""
_COUNTED = 5_000
"""Files of a folder that are counted."""


class Attachment(NamedTuple):
    """One thing that goes with a question, or a sentence that says why it does not."""

    label: str
    size: str
    text: str = ""
    problem: str = ""


def size_of(count: int) -> str:
    """``980 B``, ``12.4 kB``, ``3.1 MB``."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


class Attachments:
    """Finds what questions point at, in the kernel's working directory and namespace. Waits for the kernel: not for the main thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def chips(self, question: str) -> list[Chip]:
        """What would go with a question now; nothing is read and no command runs."""
        return [chip for _, chip in self._found(question)]

    def complete(self, question: str, cursor: int) -> Completions:
        """What a mention that is being typed at the cursor may become: files, or variables. Raises `KernelError`."""
        stem = begun(question[:cursor])
        if stem is None:
            return Completions(cursor, (), 0)
        code = f'open("{stem.stem}' if stem.kind == "path" else stem.stem
        found = self._kernel.complete(code, len(code))
        # Unquoted, a name ends at a blank.
        items = [item for item in found.items if stem.quoted or not re.search(r"\s", item.text)]
        wanted = ("file", "folder") if stem.kind == "path" else ("data", "function", "class", "module")
        items = [item for item in items if item.kind in wanted]
        return Completions(cursor - (len(code) - found.start), tuple(items), found.more)

    def gather(self, question: str, stopped: Callable[[], bool], *, commands: bool) -> list[Attachment]:
        """What goes with a question. commands: whether those that it names are run. What is not there and does not look like a path or a
        variable is taken for words."""
        attachments = []
        for mention, chip in self._found(question):
            if stopped() or (mention.kind == "command" and not commands):
                continue
            attachments.append(Attachment(chip.label, "", problem=chip.size) if chip.missing else self._attachment(mention, chip, stopped))
        return attachments

    def _found(self, question: str) -> Iterator[tuple[Mention, Chip]]:
        found = mentions(question)
        variables = self._variables() if any(mention.kind == "variable" for mention in found) else {}
        for mention in found:
            if mention.kind == "command" and is_large(question):
                # It may stand in a pasted text, which the editor shows as one word: nobody has read it.
                yield mention, Chip(mention.label, "not run: the question is long", missing=True)
            elif (chip := self._chip(mention, variables)) is not None:
                yield mention, chip

    def _variables(self) -> dict[str, str]:
        try:
            return {variable.name: f"{variable.type} {variable.summary}".strip() for variable in self._kernel.variables()}
        except KernelError:
            return {}

    def _chip(self, mention: Mention, variables: dict[str, str]) -> Chip | None:
        if mention.kind == "command":
            return Chip(mention.label, "runs when sent")
        if mention.kind == "variable":
            return Chip(mention.label, variables[mention.name]) if mention.name in variables else None
        try:
            about = os.stat(self._path(mention.name))
        except (OSError, ValueError):
            # A handle, a decorator: words. A folder in it, or an ending, says that a file is meant.
            looks_so = "/" in mention.name or "." in mention.name.strip(".")
            return Chip(mention.label, "no such file", missing=True) if looks_so else None
        if stat.S_ISDIR(about.st_mode):
            return Chip(mention.label, "folder")
        if not stat.S_ISREG(about.st_mode):
            return Chip(mention.label, "not a file", missing=True)
        return Chip(mention.label, size_of(about.st_size))

    def _path(self, name: str) -> Path:
        return Path(self._kernel.info().cwd, os.path.expanduser(name))

    def _attachment(self, mention: Mention, chip: Chip, stopped: Callable[[], bool]) -> Attachment:
        try:
            if mention.kind == "command":
                text, size = _printed(mention.name, self._kernel.info().cwd, stopped)
            elif mention.kind == "variable":
                text, size = self._variable(mention.name), chip.size
            elif chip.size == "folder":
                text, size = _outline(self._path(mention.name), stopped)
            else:
                text, size = _read(self._path(mention.name), mention, chip.size)
        except KernelError as error:
            return Attachment(chip.label, "", problem=str(error))
        except BinaryFile:
            return Attachment(chip.label, chip.size, problem="a binary file")
        except (OSError, ValueError) as error:  # the latter of a zero byte in a command
            return Attachment(chip.label, "", problem=f"cannot be read: {error.strerror if isinstance(error, OSError) else error}")
        return Attachment(chip.label, size, text)

    def _variable(self, name: str) -> str:
        detail = self._kernel.inspect(name)
        cut = f"\n[… {detail.cut:,} more characters]" if detail.cut else ""
        parts = [f"{detail.type} {detail.summary}".strip(), detail.where, detail.doc, detail.source or f"{detail.text}{cut}", detail.error]
        return _shortened("\n".join(part for part in parts if part))


def _read(path: Path, mention: Mention, size: str) -> tuple[str, str]:
    # A pipe that took the file's place meanwhile would be waited for otherwise.
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(0, "not a file")
        if mention.start is None:
            return _ends(file, os.fstat(opened).st_size), size
        end = None if mention.end is None else max(mention.start, mention.end)
        lines: list[bytes] = []
        room = _BYTES
        for line in itertools.islice(_lines(file), mention.start - 1, end):
            lines.append(line[:room])
            room -= len(line)
            if room <= 0:
                lines.append(b"\n[\xe2\x80\xa6 the rest is left out]")
                break
    if not lines:
        return "[the file has no such lines]", "0 lines"
    return _shortened(decoded(b"".join(lines))), f"{len(lines):,} line{'s' * (len(lines) != 1)}"


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines, of which one may be as long as the file: it comes in pieces that are bounded, and counts as one."""
    whole = True
    for piece in iter(lambda: file.readline(_BYTES), b""):
        if whole:
            yield piece
        whole = piece.endswith(b"\n")


def _ends(file: IO[bytes], size: int) -> str:
    """A whole file; of a large one the beginning and the end."""
    if size <= _BYTES:
        return _shortened(decoded(file.read(_BYTES)))
    head = file.read(_BYTES // 2)
    file.seek(size - _BYTES // 2)
    tail = file.read(_BYTES // 2)
    # What a multi-byte character leaves at the cuts is dropped; a mark at the beginning speaks for the head alone.
    text = f"{head.decode('utf-8', 'ignore')}\n[… {size - _BYTES:,} bytes left out …]\n{tail.decode('utf-8', 'ignore')}"
    if b"\0" in head:
        raise BinaryFile
    return _shortened(text)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head, tail = LONGEST * 2 // 3, LONGEST // 3
    return f"{text[:head]}\n[… {len(text) - LONGEST:,} characters left out …]\n{text[-tail:]}"


def _outline(folder: Path, stopped: Callable[[], bool]) -> tuple[str, str]:
    """The source files below a folder with their sizes, and how many there are."""
    from mahtab_tui.knowledge.tree_files import source_files

    lines, count = [], 0
    for path in itertools.islice(source_files(folder), _COUNTED):
        if stopped():
            break
        count += 1
        if count <= _OUTLINED:
            try:
                lines.append(f"{path}  {size_of(os.stat(folder / path).st_size)}")
            except OSError:
                lines.append(path)
    more = f"{count - _OUTLINED:,}{' or more' if count == _COUNTED else ''}"
    return "\n".join([*lines, *([f"… and {more} files more"] if count > _OUTLINED else [])]) or "[no files]", f"{count:,} file{'s' * (count != 1)}"


def _printed(command: str, cwd: str, stopped: Callable[[], bool]) -> tuple[str, str]:
    """What a command prints to both of its outputs, and how much that is. It is killed, with all that it has started, when the time is over."""
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            command, shell=True, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
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
        text = _ends(output, size)
    ended = why or (f"exit code {running.returncode}" if running.returncode else "")
    return "\n".join(part for part in (text.rstrip("\n"), f"[{ended}]" if ended else "") if part), ended or size_of(size)
