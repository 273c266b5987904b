"""Things of the host's that hostile code would like to reach, and telling whether it has."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

SIZE = 48_611
"""Bytes of the secret file: a number that stands nowhere else."""

_SHARED = 1_000_000 + os.getpid() % 1_000_000
"""Bytes of shared memory: another number where tests run at the same time."""

_VICTIM = """
import ctypes, os, sys
memory = ctypes.create_string_buffer(os.environ["CANARY"].encode())
file = open(sys.argv[1])
print(ctypes.addressof(memory), file.fileno(), flush=True)
for line in sys.stdin:
    print("alive", flush=True)
"""

# What the code under test calls by number.
_NUMBERS = {
    "x86_64": {
        "socket": 41, "connect": 42, "sendmsg": 46, "openat": 257, "ptrace": 101, "process_vm_readv": 310, "kill": 62, "execve": 59, "execveat": 322, "memfd_create": 319,
        "unshare": 272, "mount": 165, "bpf": 321, "add_key": 248, "seccomp": 317, "prctl": 157, "tgkill": 234, "rt_sigqueueinfo": 129, "clone": 56, "perf_event_open": 298,
        "userfaultfd": 323, "chroot": 161, "shmget": 29, "inotify_init1": 294, "name_to_handle_at": 303, "capset": 126, "setns": 308, "timerfd_create": 283,
    },
    "aarch64": {
        "socket": 198, "connect": 203, "sendmsg": 211, "openat": 56, "ptrace": 117, "process_vm_readv": 270, "kill": 129, "execve": 221, "execveat": 281, "memfd_create": 279,
        "unshare": 97, "mount": 40, "bpf": 280, "add_key": 217, "seccomp": 277, "prctl": 167, "tgkill": 131, "rt_sigqueueinfo": 138, "clone": 220, "perf_event_open": 241,
        "userfaultfd": 282, "chroot": 51, "shmget": 194, "inotify_init1": 26, "name_to_handle_at": 264, "capset": 91, "setns": 268, "timerfd_create": 85,
    },
}  # fmt: skip
_COMMON = {
    "openat2": 437,
    "io_uring_setup": 425,
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "pidfd_getfd": 438,
    "clone3": 435,
    "process_madvise": 440,
}

_TOOLS = """
def library():
    import ctypes
    found = ctypes.CDLL(None, use_errno=True)
    found.syscall.restype = ctypes.c_long
    return found
def call(name, *arguments):
    import ctypes
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return library().syscall(ctypes.c_long(name if isinstance(name, int) else NUMBERS[name]), *given)
"""

_HARMLESS_FILES = (
    "/dev/null",
    "socket:",
    "pipe:",
    "anon_inode:[eventpoll]",
    "anon_inode:[eventfd]",
)
_NAMESPACES = ("ipc", "mnt", "net", "pid", "user", "uts")


class Canaries:
    """One set of them; made by `canaries`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.token = "canary-" + secrets.token_hex(8)
        self._folder = folder
        self._secret = folder / "secret.txt"
        self._secret.write_text(self.token.ljust(SIZE))
        self._secret.chmod(0o640)
        (folder / f"{self.token}.listed").touch()
        (folder / "link").symlink_to(self.token)
        (folder / "canary_module.py").write_text(f"print({self.token!r})\n")
        self.out = folder / "out"
        self._stack = stack
        self._signals = 0
        self._before = self._files()
        self._shared_memory = self._system_v()
        self._listen()
        self._start_victim()
        before = signal.signal(signal.SIGUSR1, self._signalled)
        stack.callback(signal.signal, signal.SIGUSR1, before)

    def prelude(self) -> str:
        """Python that names all of it for the hostile code."""
        names = {
            "SECRET": str(self._secret),
            "FOLDER": str(self._folder),
            "OUT": str(self.out),
            "LINK": str(self._folder / "link"),
            "HERE": self._here,
            "PORT": self._port,
            "UDP": self._udp_port,
            "UNIX": str(self._folder / "stream.sock"),
            "DATAGRAM": str(self._folder / "datagram.sock"),
            "ABSTRACT": "\0" + self._abstract_name,
            "HOST": os.getpid(),
            "VICTIM": self._victim.pid,
            "ADDRESS": self._address,
            "DESCRIPTOR": self._descriptor,
            "NUMBERS": {**_NUMBERS[os.uname().machine], **_COMMON},
            "ENVIRONMENT": "CANARY",
            "SHARED": _SHARED,
        }
        return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + _TOOLS

    def dead(self, output: str, pid: int | None) -> list[str]:
        """Goals that were reached. output: all output of the code. pid: the process it ran in, while
        that exists."""
        found = [
            (self.token in output, "the secret came out"),
            (str(SIZE) in output, "the secret's size came out"),
            (self._files() != self._before, "files were changed"),
            (self._secret.read_text() != self.token.ljust(SIZE), "the secret was changed"),
            (self._was_connected(), "the network was reached"),
            (self._signals > 0, "the host was signalled"),
            (self._victim_state() != self._victim_before, "the victim was touched"),
            (self._system_v() != self._shared_memory, "shared memory was made"),
        ]
        if pid is not None and Path(f"/proc/{pid}").exists():
            found += [
                (bool(self._children(pid)), "a process was made"),
                (self._namespaces(pid) != self._namespaces(os.getpid()), "a namespace was made"),
                (bool(self._strange_files(pid)), "a strange descriptor is open"),
                (self.token in self._keys(), "a key was made"),
            ]
        return [what for broken, what in found if broken]

    def _listen(self) -> None:
        def bound(kind: int, family: int, address: object) -> socket.socket:
            one = self._stack.enter_context(socket.socket(family, kind))
            one.setblocking(False)
            one.bind(address)  # type: ignore[arg-type]
            return one

        self._abstract_name = secrets.token_hex(8)
        folder = self._folder
        # Not 127.0.0.1: another test that runs at the same time may try a port there that was just
        # free.
        self._here = ".".join(map(str, (127, *(1 + each % 254 for each in secrets.token_bytes(3)))))
        here = (self._here, 0)
        streams = [
            bound(socket.SOCK_STREAM, socket.AF_INET, here),
            bound(socket.SOCK_STREAM, socket.AF_UNIX, str(folder / "stream.sock")),
        ]
        for one in streams:
            one.listen()
        datagrams = [
            bound(socket.SOCK_DGRAM, socket.AF_INET, here),
            bound(socket.SOCK_DGRAM, socket.AF_UNIX, str(folder / "datagram.sock")),
            bound(socket.SOCK_DGRAM, socket.AF_UNIX, "\0" + self._abstract_name),
        ]
        self._streams, self._datagrams = streams, datagrams
        self._port, self._udp_port = streams[0].getsockname()[1], datagrams[0].getsockname()[1]
        self._before = self._files()

    def _was_connected(self) -> bool:
        for one in self._streams:
            try:
                one.accept()[0].close()
            except BlockingIOError:
                continue
            return True
        for one in self._datagrams:
            try:
                one.recv(100)
            except BlockingIOError:
                continue
            return True
        return False

    def _start_victim(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _VICTIM, str(self._secret)]
        environment = {**os.environ, "CANARY": self.token}
        pipe = subprocess.PIPE
        self._victim = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env=environment, text=True, start_new_session=True
        )
        self._stack.callback(self._end_victim)
        assert self._victim.stdout is not None
        self._address, self._descriptor = map(int, self._victim.stdout.readline().split())
        self._victim_before = self._victim_state()

    def _end_victim(self) -> None:
        self._victim.kill()
        with suppress(BrokenPipeError):
            self._victim.communicate()

    def _victim_state(self) -> object:
        """Whether it lives, and what others can set of it."""
        pid = self._victim.pid
        assert self._victim.stdin is not None
        assert self._victim.stdout is not None
        with suppress(BrokenPipeError):
            self._victim.stdin.write("?\n")
            self._victim.stdin.flush()
        if not self._victim.stdout.readline():
            return "dead"
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        tracer = next(line for line in status if line.startswith("TracerPid"))
        return (
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid),
            Path(f"/proc/{pid}/limits").read_text(),
            tracer,
        )

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _files(self) -> list[tuple[str, int]]:
        return sorted((path.name, path.lstat().st_mode) for path in self._folder.iterdir())

    @staticmethod
    def _system_v() -> str:
        """Who has made shared memory; what others do with theirs meanwhile does not count."""
        return "\n".join(
            line
            for line in Path("/proc/sysvipc/shm").read_text().splitlines()
            if str(_SHARED) in line.split()
        )

    @staticmethod
    def _children(pid: int) -> list[int]:
        """The processes of its session."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != pid:
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) == pid or int(fields[3]) == pid:
                    found.append(int(entry.name))
        return found

    @staticmethod
    def _namespaces(pid: int) -> list[str]:
        try:
            return [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES]
        except OSError:  # it is over, or a plain user may not look at one that cannot be traced
            return [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]

    @staticmethod
    def _strange_files(pid: int) -> list[str]:
        try:
            names = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            return []
        return [name for name in names if not name.startswith(_HARMLESS_FILES)]

    @staticmethod
    def _keys() -> str:
        try:
            return Path("/proc/keys").read_text()
        except OSError:
            return ""


@contextmanager
def canaries(folder: Path) -> Iterator[Canaries]:
    """A set of canaries in an empty folder."""
    with ExitStack() as stack:
        yield Canaries(folder, stack)
