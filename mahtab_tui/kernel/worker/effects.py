"""What audit events of Python change outside the namespace: which kind of change, and the call that the user reads.

Every event of CPython 3.11 was decided, and those of later versions that are known. Those that are not listed only read, or another event of the same act is listed: `shutil.copyfile`
opens files, `urllib.request` connects.
"""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple, Optional

FILES, PROGRAMS, CONNECTIONS, PROCESS, INSIDE = "files", "programs", "connections", "this process", "Python's own inside"
"""Kinds of changes. `PROCESS`: state of the kernel's process, such as its folder. `INSIDE`: native code, and ways to the code that holds limits."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LONGEST = 2_000
"""Characters of an argument that is told."""
_NO_FILE = (1, 3)
"""`mmap.ACCESS_READ` and `mmap.ACCESS_COPY`."""


class Effect(NamedTuple):
    """A change outside the namespace that is about to happen."""

    kind: str
    call: str
    """Like the function that does it: ``os.remove``."""
    arguments: list[Any]
    """Texts, numbers and None."""
    whole: bool = False
    """Whether the act has further events of its kind, which need no question of their own."""


Reader = Callable[[tuple[Any, ...]], Optional[Effect]]


def _plain(value: Any) -> Any:
    """A value that can be told. No code of the value's class runs, but for paths, as the call itself runs it."""
    kind = type(value)
    if kind in (int, bool, float, type(None)):
        return value
    if kind is bytes:
        value = value[:_LONGEST].decode("utf-8", "backslashreplace")
    elif kind in (list, tuple):
        return [_plain(each) for each in value[:100]]
    elif kind is not str and hasattr(kind, "__fspath__"):
        value = os.fspath(value)
        return _plain(value) if type(value) in (str, bytes) else f"<{kind.__name__}>"
    elif kind is not str:
        return f"<{kind.__name__}>"
    return value if len(value) <= _LONGEST else value[:_LONGEST] + "…"


def _call(kind: str, name: str, count: int | None = None, whole: bool = False) -> Reader:
    """Read an event whose first `count` arguments say what happens."""
    return lambda args: Effect(kind, name, [_plain(each) for each in args[:count]], whole)


def _opened(args: tuple[Any, ...]) -> Effect | None:
    path, mode, flags = args
    if type(path) is int or (type(path) is str and path == os.devnull):
        return None
    if type(mode) is str:
        written = next((letter for letter in "wax" if letter in mode), "r+" if "+" in mode else "")
    else:
        written = "" if type(flags) is int and not flags & _WRITES else "a" if flags & os.O_APPEND else "x" if flags & os.O_EXCL else "w"
    return Effect(FILES, "open", [_full(path), written]) if written else None


def _new_folder(args: tuple[Any, ...]) -> Effect | None:
    return None if type(args[0]) in (str, bytes) and os.path.isdir(args[0]) else Effect(FILES, "os.mkdir", [_full(args[0])])


def _full(path: Any) -> Any:
    told = _plain(path)
    return os.path.abspath(told) if type(told) is str and told[:1] != ":" else told


def _file(name: str, paths: int = 1, whole: bool = False) -> Reader:
    """Read an event whose first arguments are files."""
    return lambda args: Effect(FILES, name, [*map(_full, args[:paths]), *map(_plain, args[paths : paths + 1])], whole)


def _program(args: tuple[Any, ...]) -> Effect:
    command = args[1] if len(args) > 1 and args[1] is not None else args[0]
    return Effect(PROGRAMS, "subprocess.Popen", [_plain(command)])


def _address(name: str) -> Reader:
    return lambda args: Effect(CONNECTIONS, name, [_plain(args[-1])])


def _host(args: tuple[Any, ...]) -> Effect:
    return Effect(CONNECTIONS, "socket.getaddrinfo", [_plain(each) for each in args[:2]], whole=True)


def _mapped(args: tuple[Any, ...]) -> Effect | None:
    fileno, _, access = args[:3]
    return None if fileno == -1 or access in _NO_FILE else Effect(FILES, "mmap.mmap", [_plain(fileno)])


_ONE_FILE = "os.remove os.rmdir os.chmod os.chown os.truncate os.utime os.setxattr os.removexattr os.chflags os.mkfifo os.mknod".split()
_TWO_FILES = "os.rename os.link os.symlink".split()
_SENDS = "http.client.send smtplib.send ftplib.sendcmd imaplib.send poplib.putline nntplib.putline telnetlib.Telnet.write".split()
_INSIDE = (
    "code.__new__ marshal.loads marshal.load setopencodehook sys.addaudithook sys.settrace sys.setprofile sys._current_frames sys._current_exceptions"
    " sys.remote_exec sys.monitoring.register_callback cpython.remote_debugger_script cpython.PyInterpreterState_New cpython.PyConfig_Set"
    " gc.get_objects gc.get_referrers gc.get_referents sqlite3.enable_load_extension sqlite3.load_extension"
    " ctypes.addressof ctypes.call_function ctypes.cdata ctypes.cdata/buffer ctypes.dlopen ctypes.dlsym ctypes.dlsym/handle ctypes.set_exception"
    " ctypes.seh_exception ctypes.string_at ctypes.wstring_at ctypes.memoryview_at ctypes.PyObj_FromPtr".split()
)

EVENTS: dict[str, Reader] = {
    "open": _opened,
    "os.mkdir": _new_folder,
    **{name: _file(name) for name in _ONE_FILE},
    **{name: _file(name, 2) for name in _TWO_FILES},
    "shutil.rmtree": _file("shutil.rmtree", whole=True),
    **{name: _file(name, 2, whole=True) for name in ("shutil.move", "shutil.copytree")},
    "mmap.__new__": _mapped,
    "sqlite3.connect": _file("sqlite3.connect"),  # any: ATTACH writes other files without an event
    "subprocess.Popen": _program,
    **{name: _call(PROGRAMS, name) for name in ("os.system", "os.fork", "os.forkpty", "os.startfile", "pty.spawn", "webbrowser.open")},
    **{name: _call(PROGRAMS, name, 2) for name in ("os.exec", "os.posix_spawn", "os.spawn", "os.kill", "os.killpg", "signal.pthread_kill")},
    "posix.fork_exec": _call(PROGRAMS, "posix.fork_exec", 1),
    "mahtab_tui.terminal": _call(PROGRAMS, "terminal", 1),
    **{name: _address(name) for name in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")},
    "socket.getaddrinfo": _host,
    **{name: _call(CONNECTIONS, name, whole=True) for name in ("socket.gethostbyname", "socket.gethostbyaddr")},
    "socket.getnameinfo": _call(CONNECTIONS, "socket.getnameinfo"),
    "urllib.Request": _call(CONNECTIONS, "urllib.request.urlopen", 1, whole=True),
    **{name: _call(CONNECTIONS, name, 0) for name in _SENDS},
    **{name: _call(PROCESS, name) for name in ("os.chdir", "os.putenv", "os.unsetenv", "socket.sethostname", "syslog.syslog", "syslog.openlog")},
    **{name: _call(PROCESS, name, 2) for name in ("resource.setrlimit", "resource.prlimit", "fcntl.ioctl")},
    **{name: _call(INSIDE, name, 1) for name in _INSIDE},
}
"""How each event is read; a reader returns None for one that changes nothing."""
