"""Notes what the code in a locked fork wanted and did not get, for the question whether it may run in
the kernel.

The operating system refuses. What is noted here only explains it, with two exceptions: files with
secrets far down in the project, which the system would let it read, and the descriptions of private
files (`PrivateFileGuard`). `refusals` hears the same from the system, in the kernel.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from .database_errors import EVENTS as DATABASE_EVENTS
from .database_errors import DatabaseErrors
from .fork_messages import to_clause
from .private_file_guard import PrivateFileGuard
from .private_places import is_env_file, is_private_anywhere
from .side_effects import is_ignored_path, read_side_effect, to_text

MAX_OPENED_PATHS = 1_000
"""Paths of opened files that are noted."""
_MAX_REFUSED_ACTIONS = 20
"""Refused actions that are noted; only the first is reported."""
_MAX_TARGET_CHARS = 200
"""Characters of a path or another object of a refused action."""
_MAX_PATH_CHARS = 1_000
"""Longer texts in code are not looked for in the file system."""
_FOLDER_EVENTS = frozenset(("os.listdir", "os.scandir"))
"""Audit events of reading a folder."""
_REFUSAL_ERRNOS = frozenset(
    (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.ENOTSOCK)
)
"""The numbers of errors that the lock causes."""
_REFUSAL_WORDS = re.compile(
    r"permi(?:ssion|tted)|denied|read-?only database|unable to open|disk I/O|bad file descriptor"
    r"|database is locked",
    re.IGNORECASE,
)
"""Words by which errors without such a number say that the lock has caused them."""


class ForkNeeds:
    """What the code of one cell wanted, from the moment of `watch`."""

    def __init__(self) -> None:
        self._refused_actions: dict[str, None] = {}
        """What the code wanted and did not get, as clauses without "wanted to"."""
        self._database_errors = DatabaseErrors(self._note_database_error)
        self._database_refusal = ""
        """What the first error of a database says that the lock has caused."""
        self._opened_paths: dict[str, None] = {}
        """Paths that the code has opened or listed."""

    def watch(self, private_places: Iterable[str]) -> None:
        """Begin to note, and to refuse private files. It lasts as long as the process.

        Args:
            private_places: Resolved paths.
        """
        guard = PrivateFileGuard(lambda path: self.note("look at", path), private_places)
        guard.install(sys.modules["os"])
        self._database_errors.watch()
        sys.addaudithook(self._audit)

    def note(self, verb: str, target: str) -> None:
        """Note what the code wanted to do, and to which path or other object."""
        if len(self._refused_actions) < _MAX_REFUSED_ACTIONS:
            self._refused_actions.setdefault(f"{verb} {target[:_MAX_TARGET_CHARS]}".strip())

    def first(self, tree: ast.Module, error: BaseException | None) -> str:
        """Return what the code wanted and did not get, as a clause; empty if it got everything.

        Args:
            tree: The code.
            error: What has ended it; None if nothing has.
        """
        if self._refused_actions:
            first_action = next(iter(self._refused_actions))
            return f"wanted to {first_action}"
        if error is not None and (refusal := _describe_refusal(error)):
            return refusal
        if self._database_refusal:
            return self._database_refusal
        # Libraries that read files without Python's `open` raise errors that the code may hide.
        for path in dict.fromkeys((*self._opened_paths, *_quoted_paths(tree))):
            if _is_refused_file(path):
                return f"wanted to read {_shorten(path)}"
        return ""

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        """Note what an audit event says that the code wants. Raises `PermissionError` for a file with
        secrets."""
        if event in DATABASE_EVENTS:
            self._database_errors.watch()
        if event == "open" and type(args[0]) is not int:
            self._refuse_secrets(to_text(args[0]))
        is_reading = event == "open" or event in _FOLDER_EVENTS
        if is_reading and type(args[0]) is str and len(self._opened_paths) < MAX_OPENED_PATHS:
            self._opened_paths.setdefault(args[0])
        # Libraries may set variables of the environment; only the cell's own code asks for what it
        # sets. Frame 1 is that of `os.environ`, and frame 2 is its caller.
        if event == "os.putenv" and sys._getframe(2).f_code.co_filename.startswith("In ["):
            self.note("set the variable", to_text(args[0]))
        elif effect := read_side_effect(event, args):
            self.note(effect.verb, effect.target)

    def _refuse_secrets(self, path: str) -> None:
        """Raise `PermissionError` if a file is private by its name, in whichever folder it is."""
        if is_env_file(path) or is_private_anywhere(path):
            self.note("read", path)
            raise PermissionError(errno.EACCES, "this file may contain secrets", path)

    def _note_database_error(self, message: str) -> None:
        """Note an error of a database, if the lock has probably caused it."""
        if not self._database_refusal and _REFUSAL_WORDS.search(message):
            self._database_refusal = _wanted_more(message)


def _describe_refusal(error: BaseException) -> str:
    """Return what the lock refused, as a clause; empty if the error has another cause."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _REFUSAL_ERRNOS:
            if cause.filename:
                return f"wanted to read {to_text(cause.filename)}"
            return f"wanted more than reading ({cause.strerror})"
        if isinstance(cause, MemoryError):
            return "wanted more memory than a locked fork has"
        # Some libraries raise errors of their own, or without a number, where only the text says what
        # was refused.
        if not isinstance(cause, OSError) or cause.errno is None:
            with suppress(Exception):  # the text may come from user code
                text = str(cause)
                if _REFUSAL_WORDS.search(text):
                    return _wanted_more(text)
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that have led to it."""
    cause: BaseException | None = error
    seen_ids: set[int] = set()
    while cause is not None and id(cause) not in seen_ids:
        seen_ids.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _wanted_more(message: str) -> str:
    return f"wanted more than reading ({_shorten(message)})"


def _shorten(text: str) -> str:
    return to_clause(text)[:_MAX_TARGET_CHARS]


def _quoted_paths(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in code that name files outside the working folder.

    Texts such as "/" are more often separators than folders.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (str, bytes):
            text = to_text(node.value)  # native functions take bytes
            is_path = len(text) < _MAX_PATH_CHARS and text.startswith(("/", "~/", "../"))
            if is_path and "\0" not in text and not os.path.isdir(os.path.expanduser(text)):
                yield os.path.expanduser(text)


def _is_refused_file(path: str) -> bool:
    """Return whether the lock keeps an existing file from being read.

    The code may have caught the error, so the file is opened again.
    """
    if is_ignored_path(path):
        return False
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EACCES
    return False
