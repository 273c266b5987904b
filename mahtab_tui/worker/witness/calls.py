"""The system calls that the witness is told of, because they change files or names of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..sandbox import call_filter
from ..sandbox.allowed_calls import X86_64, AllowedCall, ArgumentCheck

_FIRST_X32_NUMBER = 0x40000000
"""Numbers from here on belong to a table with 64-bit registers and 32-bit addresses."""
RENAME_EXCHANGE = 2
"""The flag of a call that exchanges what two paths lead to."""
OPENS_TO_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Names; their numbers on x86_64 and aarch64; what they do; the index of the flags among the
# arguments; and those of paths, each with that of the descriptor of the folder where it begins.
_CALL_TABLE = """
    open       2   -   open    1 -:0
    openat     257 56  open    2 0:1
    openat2    437 437 open2   2 0:1
    creat      85  -   write   - -:0
    truncate   76  45  write   - -:0
    rename     82  -   rename  - -:0 -:1
    renameat   264 38  rename  - 0:1 2:3
    renameat2  316 276 rename  4 0:1 2:3
    unlink     87  -   unlink  - -:0
    unlinkat   263 35  unlink  2 0:1
    rmdir      84  -   unlink  - -:0
    mkdir      83  -   create  - -:0
    mkdirat    258 34  create  - 0:1
    mknod      133 -   create  - -:0
    mknodat    259 33  create  - 0:1
    symlink    88  -   create  - -:1
    symlinkat  266 36  create  - 1:2
    bind       49  200 socket  - -:1
    link       86  -   link    - -:0 -:1
    linkat     265 37  link    4 0:1 2:3
    chmod      90  -   mark    - -:0
    fchmodat   268 53  mark    - 0:1
    fchmodat2  452 452 mark    3 0:1
    fchmod     91  52  markfd  - 0:-
    utimensat  280 88  mark    3 0:1
    utimes     235 -   mark    - -:0
    utime      132 -   mark    - -:0
    futimesat  261 -   mark    - 0:1
    chown      92  -   own     - -:0
    lchown     94  -   ownlink - -:0
    fchownat   260 54  own     4 0:1
    fchown     93  55  own     - 0:-
    setxattr   188 5   own     - -:0
    lsetxattr  189 6   ownlink - -:0
    fsetxattr  190 7   own     - 0:-
    setxattrat 463 463 own     2 0:1
    removexattr   197 14 own     - -:0
    lremovexattr  198 15 ownlink - -:0
    fremovexattr  199 16 own     - 0:-
    removexattrat 466 466 own    2 0:1
    file_setattr  469 469 own    4 0:1
    acct       163 89  write   - -:0
    swapon     167 224 write   - -:0
    mount      165 40  hide    -
    open_tree  428 428 hide    -
    open_tree_attr 467 467 hide -
    move_mount 429 429 hide    -
    fsmount    432 432 hide    -
    io_uring_setup    425 425 hide -
    open_by_handle_at 304 265 hide -
"""

_SOCKET_CALL_OF_32_BITS = 102
"""The call of 32-bit programs for all that is done with sockets."""
_BIND = 2
"""Its first argument that stands for `bind`."""
# Names and numbers of calls of 32-bit programs on x86-64 that change files.
_32_BIT_CALL_TABLE = """
    creat 8          link 9              unlink 10         mknod 14         chmod 15
    mount 21         utime 30            rename 38         mkdir 39         rmdir 40
    acct 51          symlink 83          swapon 87         truncate 92      fchmod 94
    truncate64 193   utimes 271          mkdirat 296       mknodat 297      futimesat 299
    unlinkat 301     renameat 302        linkat 303        symlinkat 304    fchmodat 306
    utimensat 320    open_by_handle_at 342                 renameat2 353    bind 361
    utimensat_time64 412                 io_uring_setup 425                 open_tree 428
    move_mount 429   fsmount 432         openat2 437       fchmodat2 452    open_tree_attr 467
    lchown 16        fchown 95           chown 182         lchown32 198     fchown32 207
    chown32 212      setxattr 226        lsetxattr 227     fsetxattr 228    removexattr 235
    lremovexattr 236 fremovexattr 237    fchownat 298      setxattrat 463   removexattrat 466
    file_setattr 469
"""
_CHANGING_32_BIT_CALLS = frozenset(
    int(word) for word in _32_BIT_CALL_TABLE.split() if word.isdecimal()
)
_OPENING_32_BIT_CALLS = {5: 1, 295: 2}
"""The calls `open` and `openat` of such programs, with the index of the argument with the flags."""


class WatchedCall(NamedTuple):
    """A system call that changes files."""

    name: str
    """As Linux calls it."""
    x86_64: int | None
    """Its number on this processor; None if it does not have the call."""
    aarch64: int | None
    """Likewise."""
    action: str
    """What it does: open, open2 (with flags in memory), write, rename, unlink, create, socket (bind one
    to a path), link (give a file another name), mark (change the permissions or times), markfd (those of
    an open file), own (change the owner or the attributes), ownlink (those of a link itself) or hide
    (change files without a path that the witness sees)."""
    flags: int | None
    """Index of the argument with flags; of ``open2``, that with their address."""
    paths: tuple[tuple[int | None, int | None], ...]
    """Indexes of the arguments with a folder's descriptor and with a path's address."""


class FileCall(NamedTuple):
    """What a thread is about to do by a watched call."""

    name: str
    action: str
    """See `WatchedCall`."""
    flags: int
    """0 if it has none."""
    paths: Sequence[str]
    """Resolved; empty for one that is not there."""


def _read_index(column: str) -> int | None:
    """Return the number in a column of the table; None for a dash."""
    return None if column == "-" else int(column)


def _read_table() -> Iterator[WatchedCall]:
    """Yield the calls of `_CALL_TABLE`."""
    for row in _CALL_TABLE.strip().splitlines():
        name, x86_64, aarch64, action, flags, *pairs = row.split()
        paths = []
        for pair in pairs:
            folder, _, path = pair.partition(":")
            paths.append((_read_index(folder), _read_index(path)))
        numbers = _read_index(x86_64), _read_index(aarch64)
        yield WatchedCall(name, *numbers, action, _read_index(flags), tuple(paths))


def watched_calls(architecture: str) -> dict[int, WatchedCall]:
    """Return the calls by their numbers on a processor."""
    calls = {}
    for call in _read_table():
        number = call.x86_64 if architecture == X86_64 else call.aarch64
        if number is not None:
            calls[number] = call
    return calls


def may_change_files(architecture: str, number: int, arguments: Sequence[int]) -> bool:
    """Return whether a call of another table than the processor's usual one may change files.

    Args:
        architecture: The processor.
        number: The number of the call in its table.
        arguments: Its arguments.
    """
    if architecture != X86_64:
        return True
    if number == _SOCKET_CALL_OF_32_BITS:
        return arguments[0] == _BIND
    if number in _OPENING_32_BIT_CALLS:
        flags = arguments[_OPENING_32_BIT_CALLS[number]]
        return bool(flags & OPENS_TO_CHANGE)
    return number in _CHANGING_32_BIT_CALLS or number >= _FIRST_X32_NUMBER


def watching_filter(architecture: str) -> bytes:
    """Return a filter that reports the calls, except those that open files only to read them, and all
    calls of other tables, such as that of 32 bits."""
    calls = []
    for call in _read_table():
        alternatives: tuple[tuple[ArgumentCheck, ...], ...] = ()
        if call.action == "open" and call.flags is not None:
            alternatives = ((ArgumentCheck(call.flags, OPENS_TO_CHANGE, (0,)),),)
        calls.append(AllowedCall(call.name, call.x86_64, call.aarch64, alternatives))
    return call_filter.reporting_program(architecture, calls, reports_other_tables=True)
