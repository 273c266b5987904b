"""Things of the host that hostile code would like to reach, and checks whether it has."""

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
"""Bytes of the secret file: a number that occurs nowhere else."""

_SHARED = 1_000_000 + os.getpid() % 1_000_000
"""Bytes of shared memory: another number in each process that runs tests."""

_VICTIM = """
import ctypes, os, sys
memory = ctypes.create_string_buffer(os.environ["CANARY"].encode())
file = open(sys.argv[1])
print(ctypes.addressof(memory), file.fileno(), flush=True)
for line in sys.stdin:
    print("alive", flush=True)
"""

# System calls that the hostile code makes by number: on x86_64, and on aarch64.
_NUMBERS = """
socket 41 198, connect 42 203, sendmsg 46 211, openat 257 56, ptrace 101 117,
process_vm_readv 310 270, kill 62 129, execve 59 221, execveat 322 281,
memfd_create 319 279, unshare 272 97, mount 165 40, bpf 321 280, add_key 248 217,
seccomp 317 277, prctl 157 167, tgkill 234 131, rt_sigqueueinfo 129 138, clone 56 220,
perf_event_open 298 241, userfaultfd 323 282, chroot 161 51, shmget 29 194,
inotify_init1 294 26, name_to_handle_at 303 264, capset 126 91, setns 308 268,
timerfd_create 283 85
"""
_COMMON = {"openat2": 437, "io_uring_setup": 425, "pidfd_open": 434, "pidfd_send_signal": 424}
_COMMON |= {"pidfd_getfd": 438, "clone3": 435, "process_madvise": 440}

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

_HARMLESS_FILES = tuple(
    "/dev/null socket: pipe: anon_inode:[eventpoll] anon_inode:[eventfd]".split()
)
_NAMESPACES = ("ipc", "mnt", "net", "pid", "user", "uts")


class Canaries:
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
        previous_handler = signal.signal(signal.SIGUSR1, self._signalled)
        stack.callback(signal.signal, signal.SIGUSR1, previous_handler)

    def prelude(self) -> str:
        """Return code that names all of them for the hostile code."""
        column = ("x86_64", "aarch64").index(os.uname().machine)
        calls = (line.split() for line in _NUMBERS.split(","))
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
            "NUMBERS": {name: int(numbers[column]) for name, *numbers in calls} | _COMMON,
            "ENVIRONMENT": "CANARY",
            "SHARED": _SHARED,
        }
        return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + _TOOLS

    def dead(self, output: str, pid: int | None) -> list[str]:
        """Return the goals that the code reached. pid: of its process, if that still exists."""
        escapes = [
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
            escapes += [
                (bool(self._children(pid)), "a process was made"),
                (self._namespaces(pid) != self._namespaces(os.getpid()), "a namespace was made"),
                (bool(self._strange_files(pid)), "a strange descriptor is open"),
                (self.token in self._keys(), "a key was made"),
            ]
        return [escape for broken, escape in escapes if broken]

    def _listen(self) -> None:
        def bound(kind: int, family: int, address: object) -> socket.socket:
            listener = self._stack.enter_context(socket.socket(family, kind))
            listener.setblocking(False)
            listener.bind(address)  # type: ignore[arg-type]
            return listener

        self._abstract_name = secrets.token_hex(8)
        folder = self._folder
        # Not 127.0.0.1, where another test may connect to a port that was free a moment ago.
        self._here = ".".join(map(str, (127, *(1 + byte % 254 for byte in secrets.token_bytes(3)))))
        ip_address = (self._here, 0)
        unix = [str(folder / "datagram.sock"), "\0" + self._abstract_name]
        self._streams = [
            bound(socket.SOCK_STREAM, socket.AF_INET, ip_address),
            bound(socket.SOCK_STREAM, socket.AF_UNIX, str(folder / "stream.sock")),
        ]
        for listener in self._streams:
            listener.listen()
        self._datagrams = [
            bound(socket.SOCK_DGRAM, socket.AF_INET, ip_address),
            *(bound(socket.SOCK_DGRAM, socket.AF_UNIX, address) for address in unix),
        ]
        self._port = self._streams[0].getsockname()[1]
        self._udp_port = self._datagrams[0].getsockname()[1]
        self._before = self._files()

    def _was_connected(self) -> bool:
        for listener in self._streams:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                return True
        for listener in self._datagrams:
            with suppress(BlockingIOError):
                listener.recv(100)
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
        """Return "dead", or what other processes can set of it."""
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
        """Return the lines about our shared memory, not about that of other programs."""
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()
        return "\n".join(line for line in lines if str(_SHARED) in line.split())

    @staticmethod
    def _children(pid: int) -> list[int]:
        """Return the other processes of its session."""
        process_ids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != pid:
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) == pid or int(fields[3]) == pid:
                    process_ids.append(int(entry.name))
        return process_ids

    @staticmethod
    def _namespaces(pid: int) -> list[str]:
        try:
            return [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES]
        except OSError:  # it has ended, or a plain user may not trace it
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
    """Set them up in an empty folder."""
    with ExitStack() as stack:
        yield Canaries(folder, stack)
