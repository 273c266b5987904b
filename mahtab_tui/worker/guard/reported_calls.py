"""The system calls that a locked process reports when they are refused, and how they are told apart from
those that are refused silently.

Their numbers are those of Linux on x86_64 and aarch64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..sandbox import allowed_calls
from ..sandbox.allowed_calls import AllowedCall

INT_BITS = 0xFFFF_FFFF
"""The part of an argument that is a descriptor or another C int."""

# Names; their numbers on x86_64 and aarch64; the indexes of a path and of the flags of an opened
# file among the arguments; what they want.
_CALL_TABLE = """
    open       2   -   0 1  write
    openat     257 56  1 2  write
    creat      85  -   0 -  write
    unlink     87  -   0 -  remove
    unlinkat   263 35  1 -  remove
    rename     82  -   0 -  rename
    renameat   264 38  1 -  rename
    renameat2  316 276 1 -  rename
    mkdir      83  -   0 -  make the folder
    mkdirat    258 34  1 -  make the folder
    rmdir      84  -   0 -  remove the folder
    link       86  -   0 -  link
    linkat     265 37  1 -  link
    symlink    88  -   1 -  link
    symlinkat  266 36  2 -  link
    truncate   76  45  0 -  truncate
    chmod      90  -   0 -  change the permissions of
    fchmodat   268 53  1 -  change the permissions of
    execve     59  221 0 -  start
    fork       57  -   - -  make a process
    vfork      58  -   - -  make a process
    clone      56  220 - -  make a process
    socket     41  198 - -  connect to the internet
    utimensat  280 88  1 -  change the time of
    setpriority 141 140 - -  change the priority
    write      1   64  - -  write
    writev     20  66  - -  write
    pwrite64   18  68  - -  write
    pwritev    296 70  - -  write
    ftruncate  77  46  - -  truncate
    fallocate  285 47  - -  write
    sendfile   40  71  - -  write
    fchmod     91  52  - -  change the permissions of
    fchown     93  55  - -  change the owner of
    fchmodat2  452 452 1 -  change the permissions of
    chown      92  -   0 -  change the owner of
    lchown     94  -   0 -  change the owner of
    fchownat   260 54  1 -  change the owner of
    mknod      133 -   0 -  make the special file
    mknodat    259 33  1 -  make the special file
    setxattr   188 5   0 -  change the attributes of
    lsetxattr  189 6   0 -  change the attributes of
    fsetxattr  190 7   - -  change the attributes of
    removexattr  197 14 0 - change the attributes of
    lremovexattr 198 15 0 - change the attributes of
    fremovexattr 199 16 - - change the attributes of
    mount      165 40  1 -  mount a file system at
    umount2    166 39  0 -  unmount
    chdir      80  49  0 -  go to the folder
    fchdir     81  50  - -  go to another folder
    chroot     161 51  0 -  change the root folder to
    kill       62  129 - -  send a signal
    tkill      200 130 - -  send a signal
    tgkill     234 131 - -  send a signal
    pidfd_send_signal 424 424 - - send a signal
    rt_sigqueueinfo 129 138 - - send a signal
    setrlimit  160 164 - -  change a limit of the process
    prlimit64  302 261 - -  change a limit of the process
    sched_setaffinity  203 122 - - choose the processors
    sched_setscheduler 144 119 - - change the priority
    sched_setparam     142 118 - - change the priority
    sched_setattr      314 274 - - change the priority
    setuid     105 146 - -  change the user
    setgid     106 144 - -  change the user
    setreuid   113 145 - -  change the user
    setregid   114 143 - -  change the user
    setresuid  117 147 - -  change the user
    setresgid  119 149 - -  change the user
    setgroups  116 159 - -  change the user
    setsid     112 157 - -  change the process group
    setpgid    109 154 - -  change the process group
    settimeofday  164 170 - - set the clock
    clock_settime 227 112 - - set the clock
    clock_adjtime 305 266 - - set the clock
    adjtimex   159 171 - -  set the clock
    ptrace     101 117 - -  reach the memory of a process
    process_vm_readv  310 270 - - reach the memory of a process
    process_vm_writev 311 271 - - reach the memory of a process
    shmget     29  194 - -  share memory with processes
    msgget     68  186 - -  share memory with processes
    semget     64  190 - -  share memory with processes
    mq_open    240 180 - -  share memory with processes
"""
CALLS_WITH_DESCRIPTOR = frozenset(
    "write writev pwrite64 pwritev ftruncate fallocate sendfile fchmod fchown fsetxattr"
    " fremovexattr".split()
)
"""Their first argument is the descriptor of the file that they change."""
CALLS_ON_THREADS = frozenset(
    "sched_setaffinity sched_setscheduler sched_setparam sched_setattr".split()
)
"""Libraries call them for the threads that they make."""
CONTINUED_CALLS = frozenset(("write", "writev"))
"""Allowed on any descriptor that may be written, such as that of a pipe of the process."""


class ReportedCall(NamedTuple):
    """A system call that is reported."""

    name: str
    x86_64: int | None
    """Its number on this processor; None if it has no such call."""
    aarch64: int | None
    verb: str
    """Follows "wanted to"."""
    path: int | None = None
    """Index of the argument with the address of a path."""
    flags: int | None = None
    """Index of the argument with the flags of an opened file."""


def _read_table(table: str) -> Iterator[ReportedCall]:
    for row in table.strip().splitlines():
        name, *columns, verb = row.split(None, 5)
        x86_64, aarch64, path, flags = map(_read_number, columns)
        yield ReportedCall(name, x86_64, aarch64, verb, path, flags)


def _read_number(column: str) -> int | None:
    return None if column == "-" else int(column)


REPORTED_CALLS = tuple(_read_table(_CALL_TABLE))


class SplitCalls(NamedTuple):
    """The calls for two filters that together allow some calls."""

    reporting: tuple[AllowedCall, ...]
    """The calls of the filter that reports what it refuses."""
    silent: tuple[AllowedCall, ...]
    """The calls of the other filter, which leaves those above to the first."""


def split_calls(allowed: Sequence[AllowedCall], unreported_fds: Sequence[int]) -> SplitCalls:
    """Return the calls for two filters that together allow `allowed`.

    Args:
        allowed: The calls.
        unreported_fds: Descriptors to which the process writes without a report.
    """
    allowed_alternatives = {call.name: call.alternatives for call in allowed}
    allowed_alternatives["clone"] = ()  # the listener counts the threads
    own_descriptor = allowed_calls.ArgumentCheck(0, INT_BITS, tuple(unreported_fds))
    allowed_alternatives.update(dict.fromkeys(CONTINUED_CALLS, ((own_descriptor,),)))
    reporting = tuple(
        AllowedCall(call.name, call.x86_64, call.aarch64, allowed_alternatives.get(call.name, ()))
        for call in REPORTED_CALLS
    )
    reported_names = {call.name for call in REPORTED_CALLS}
    silent_calls = tuple(call for call in allowed if call.name not in reported_names)
    unconditional = tuple(call._replace(alternatives=((),)) for call in reporting)
    return SplitCalls(reporting, (*silent_calls, *unconditional))
