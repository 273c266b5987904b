"""Code that tries to get out of a sandbox, or to take it and the host down.

Names in capitals, `call` and `library` come from `Canaries.prelude`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest


class Escape(NamedTuple):
    name: str
    code: str
    seconds: float = 20.0
    works: bool = True
    """True if it succeeds in plain Python as root, so that the canaries must notice; False for
    what takes a machine down."""


def _sent(message: str) -> str:
    """Return code that sends a message to the host itself. message: an expression."""
    return f"import os, json\nb = json.dumps({message}).encode()\nos.write(3, len(b).to_bytes(4, 'big') + b)"


_FILES = [
    Escape("open", "print(open(SECRET).read())"),
    Escape("os.open", "import os\nprint(os.read(os.open(SECRET, os.O_RDONLY), 100))"),
    Escape("file object of io", "import io\nprint(io.FileIO(SECRET).read(100), io.open_code(SECRET).read(100))"),
    Escape("path object", "from pathlib import Path\nprint(Path(SECRET).read_text()[:100])"),
    Escape("a file's lines", "import linecache\nprint(linecache.getline(SECRET, 1)[:100])"),
    Escape("write", "open(OUT, 'w').write('x')"),
    Escape("a folder", "import os\nos.mkdir(OUT)"),
    Escape("a pipe with a name", "import os\nos.mkfifo(OUT)"),
    Escape("size of a file", "import os\nprint(os.stat(SECRET).st_size)"),
    Escape("names in a folder", "import os\nprint(os.listdir(FOLDER))"),
    Escape("names by a pattern", "import glob\nprint(glob.glob(FOLDER + '/*'))"),
    Escape("where a link leads", "import os\nprint(os.readlink(LINK))"),
    Escape("own link to the secret", "import os\nos.symlink(SECRET, OUT)\nprint(open(OUT).read())"),
    Escape("second name for the secret", "import os\nos.link(SECRET, OUT)"),
    Escape("remove", "import os\nos.unlink(LINK)"),
    Escape("rename", "import os\nos.rename(LINK, OUT)"),
    Escape("empty a file", "import os\nos.truncate(SECRET, 0)"),
    Escape("rights of a file", "import os\nos.chmod(SECRET, 0o777)"),
    Escape("relative after chdir", "import os\nos.chdir(FOLDER)\nprint(open('secret.txt').read())"),
    Escape("root folder", "import os\nos.chroot(FOLDER)\nprint(open('/secret.txt').read())"),
    Escape("copy", "import shutil\nshutil.copy(SECRET, OUT)"),
    Escape("temporary file", "import tempfile\ntempfile.tempdir = FOLDER\nopen(tempfile.mkstemp()[1], 'w').write('x')"),
    Escape("database", "import sqlite3\nsqlite3.connect(OUT).execute('create table t (x)')"),
    Escape("archive", "import zipfile\nzipfile.ZipFile(OUT, 'w').writestr('a', 'b')"),
    Escape("import from a folder", "import sys\nsys.path.insert(0, FOLDER)\nimport canary_module"),
    Escape(
        "import by a loader of its own",
        "from importlib.machinery import PathFinder\nimport importlib.util, sys\nsys.meta_path.append(PathFinder)\n"
        "from importlib.machinery import FileFinder, SourceFileLoader\nsys.path_hooks.append(FileFinder.path_hook((SourceFileLoader, ['.py'])))\n"
        "sys.path.append(FOLDER)\nsys.path_importer_cache.clear()\nimport canary_module",
    ),
    Escape("openat", "import os\nprint(os.read(call('openat', -100, SECRET.encode(), 0), 100))"),
    Escape("openat2", "import os\nprint(os.read(call('openat2', -100, SECRET.encode(), bytes(24), 24), 100))"),
    Escape("C library's fopen", "import ctypes\nf = library().fopen\nf.restype = ctypes.c_void_p\nf(OUT.encode(), b'w')"),
    Escape("own memory as a file", "print(open('/proc/self/mem', 'rb'), open('/proc/self/maps').read()[:0]); open(OUT, 'w')"),
    Escape("descriptors by /proc", "import os\nprint(os.listdir('/proc/self/fd')); open(OUT, 'w')"),
    Escape("inotify", "import os\nfd = call('inotify_init1', 0)"),
    Escape("handles of files", "import ctypes\nh = ctypes.create_string_buffer(b'\\x80\\0\\0\\0', 200)\nm = ctypes.c_int()\n"
           "if call('name_to_handle_at', -100, SECRET.encode(), h, ctypes.byref(m), 0) == 0: print(open(SECRET).read())"),
]  # fmt: skip

_ENVIRONMENT = [
    Escape("environment", "import os\nprint(os.environ, os.getenv(ENVIRONMENT))"),
    Escape("C library's environment", "import ctypes\ng = library().getenv\ng.restype = ctypes.c_char_p\nprint(g(ENVIRONMENT.encode()))"),
    Escape("the host's environment", "print(open(f'/proc/{HOST}/environ').read())", works=False),
    Escape("the victim's environment", "print(open(f'/proc/{VICTIM}/environ').read())"),
    Escape("the parent's environment", "import os\nprint(open(f'/proc/{os.getppid()}/environ').read())", works=False),
    Escape("format string", "print('{0.__class__.__base__.__subclasses__}'.format(1), '{0.__globals__[os].environ}'.format(__import__('shutil').copy))"),
    Escape("frames", "import sys\nf = sys._getframe()\nwhile f:\n    print(f.f_globals, f.f_locals)\n    f = f.f_back\nimport os\nprint(os.environ)"),
    Escape("the collector's objects", "import gc\nprint([o for o in gc.get_objects() if isinstance(o, dict) and ENVIRONMENT in o]); import os; print(os.environ)"),
    Escape(
        "subclasses",
        "for c in ().__class__.__base__.__subclasses__():\n    if c.__name__ == '_wrap_close':\n        c.__init__.__globals__['system']('touch ' + OUT)",
    ),
]  # fmt: skip

_NETWORK = [
    Escape("tcp", "import socket\nsocket.create_connection((HERE, PORT), 5).send(b'x')"),
    Escape("udp", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (HERE, UDP))"),
    Escape("unix stream", "import socket\nsocket.socket(socket.AF_UNIX).connect(UNIX)"),
    Escape("unix datagram", "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', DATAGRAM)"),
    Escape("abstract", "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', ABSTRACT)"),
    Escape("a pair led elsewhere", "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', ABSTRACT)"),
    Escape("message on a pair with an address", "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendmsg([b'x'], [], 0, ABSTRACT)"),
    Escape(
        "the own connection led elsewhere",
        "import socket\nfor fd in range(3, 20):\n    try:\n        s = socket.socket(fileno=fd)\n        s.connect(UNIX)\n    except OSError: pass\n"
        "    else: break\nelse:\n    pass",
        works=False,
    ),
    Escape("asyncio", "import asyncio\nasync def go():\n    r, w = await asyncio.open_connection(HERE, PORT)\n    w.write(b'x')\nasyncio.run(go())"),
    Escape("http", "import urllib.request\nurllib.request.urlopen(f'http://{HERE}:{PORT}/', timeout=1)"),
    Escape(
        "socket by number",
        "import struct\nfd = call('socket', 2, 1, 0)\ncall('connect', fd, struct.pack('=H', 2) + struct.pack('>H', PORT) + bytes(map(int, HERE.split('.'))) + bytes(8), 16)",
    ),
    Escape("io_uring", "import ctypes\nfd = call('io_uring_setup', 8, ctypes.create_string_buffer(120))"),
]  # fmt: skip

_PROCESSES = [
    Escape("fork", "import os\nif os.fork() == 0:\n    open(OUT, 'w')\n    os._exit(0)\nos.wait()"),
    Escape("subprocess", "import subprocess\nsubprocess.run(['touch', OUT])"),
    Escape("system", "import os\nos.system('touch ' + OUT)"),
    Escape("popen", "import os\nos.popen('touch ' + OUT).read()"),
    Escape("posix_spawn", "import os\nos.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'touch ' + OUT], {'PATH': '/bin:/usr/bin'}), 0)"),
    Escape("spawn", "import os\nos.spawnl(os.P_WAIT, '/bin/sh', 'sh', '-c', 'touch ' + OUT)"),
    Escape("multiprocessing", "import multiprocessing as m\np = m.get_context('fork').Process(target=open, args=(OUT, 'w'))\np.start()\np.join()"),
    Escape("a process pool", "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(1) as p: p.submit(open, OUT, 'w')"),
    Escape("terminal of its own", "import pty, os\npid, fd = pty.fork()\nif pid == 0:\n    open(OUT, 'w')\n    os._exit(0)\nos.waitpid(pid, 0)"),
    Escape("clone without thread", "import os\npid = call('clone', 17, 0, 0, 0, 0)\nif pid == 0:\n    open(OUT, 'w')\n    os._exit(0)\nos.wait()"),
    Escape(
        "clone3",
        "import struct, os\npid = call('clone3', struct.pack('=8Q', 0, 0, 0, 0, 17, 0, 0, 0), 64)\nif pid == 0:\n    open(OUT, 'w')\n    os._exit(0)\nos.wait()",
    ),
    Escape("exec", "import os\nos.execv('/bin/sh', ['sh', '-c', 'touch ' + OUT])"),
    Escape(
        "program in memory",
        "import os\nfd = call('memfd_create', b'x', 0)\nos.write(fd, ('#!/bin/sh\\ntouch ' + OUT).encode())\nos.execve('/proc/self/fd/%d' % fd, ['x'], {})",
    ),
    Escape("file in memory", "import os\nfd = call('memfd_create', b'x', 0)"),
    Escape(
        "code in memory",
        "import mmap, ctypes\nm = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\nm[0] = 0xc3\n"
        "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\nopen(OUT, 'w')",
        works=False,
    ),
    Escape(
        "code by mprotect",
        "import ctypes\nlibrary().posix_memalign(ctypes.byref(p := ctypes.c_void_p()), 4096, 4096)\n"
        "if library().mprotect(p, 4096, 7) == 0: open(OUT, 'w')",
    ),
]  # fmt: skip

_OTHERS = [
    Escape("signal the victim", "import os\nos.kill(VICTIM, 9)"),
    Escape("signal the host", "import os, signal\nos.kill(HOST, signal.SIGUSR1)"),
    Escape("signal a group", "import os\nos.killpg(VICTIM, 9)"),
    Escape("signal all", "import os\nos.kill(-1, 9)", works=False),
    Escape("signal the parent", "import os\nos.kill(os.getppid(), 10)", works=False),
    Escape("signal by number", "call('kill', VICTIM, 9)"),
    Escape("signal a thread", "call('tgkill', VICTIM, VICTIM, 9)"),
    Escape("queue a signal", "import struct\ncall('rt_sigqueueinfo', VICTIM, 9, struct.pack('=iii', 9, 0, -1) + bytes(116))"),
    Escape("signal by descriptor", "call('pidfd_send_signal', call('pidfd_open', VICTIM, 0), 9, None, 0)"),
    Escape(
        "signal by the kernel's hand",
        "import socket, fcntl, os\na, b = socket.socketpair()\nfcntl.fcntl(a, fcntl.F_SETOWN, VICTIM)\nfcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC)\nb.send(b'x')",
    ),
    Escape(
        "signal by ioctl",
        "import socket, fcntl, struct\na, b = socket.socketpair()\nfcntl.ioctl(a, 0x8901, struct.pack('i', VICTIM))\nfcntl.ioctl(a, 0x5452, struct.pack('i', 1))\nb.send(b'x')",
    ),
    Escape("priority", "import os\nos.setpriority(os.PRIO_PROCESS, VICTIM, 19)"),
    Escape("processors", "import os\nos.sched_setaffinity(VICTIM, {0})", works=False),
    Escape("limits", "import resource\nresource.prlimit(VICTIM, resource.RLIMIT_CPU, (1, 1))"),
    Escape("trace", "call('ptrace', 0x4206, VICTIM, 0, 0)"),
    Escape(
        "read memory",
        "import ctypes, struct\nb = ctypes.create_string_buffer(64)\n"
        "call('process_vm_readv', VICTIM, struct.pack('PN', ctypes.addressof(b), 64), 1, struct.pack('PN', ADDRESS, 64), 1, 0)\nprint(b.value)",
    ),
    Escape("read memory by /proc", "f = open(f'/proc/{VICTIM}/mem', 'rb', 0)\nf.seek(ADDRESS)\nprint(f.read(64))"),
    Escape("take a descriptor", "import os\nprint(os.read(call('pidfd_getfd', call('pidfd_open', VICTIM, 0), DESCRIPTOR, 0), 100))"),
    Escape("take a descriptor by /proc", "print(open(f'/proc/{VICTIM}/fd/{DESCRIPTOR}').read())"),
    Escape("shared memory", "call('shmget', 0, SHARED, 0o1600)"),
]  # fmt: skip

_SYSTEM = [
    Escape("namespace", "call('unshare', 0x10000000 | 0x20000)"),
    Escape("namespace of others", "call('setns', 0, 0)", works=False),
    Escape("mount", "call('mount', b'none', FOLDER.encode(), b'tmpfs', 0, None)\nopen(OUT, 'w')", works=False),
    Escape("bpf", "import struct\nfd = call('bpf', 0, struct.pack('=IIII', 2, 4, 8, 1) + bytes(112), 128)"),
    Escape("performance events", "import struct\nfd = call('perf_event_open', struct.pack('=IIQ', 1, 120, 0) + bytes(104), 0, -1, -1, 0)"),
    Escape("user faults", "fd = call('userfaultfd', 1)"),
    Escape("keys", "call('add_key', b'user', open(SECRET).read(23).encode(), b'x', 1, -3)", works=False),
    Escape("traceable again", "call('prctl', 4, 1, 0, 0, 0)\nopen(OUT, 'w')"),
    Escape("no filter", "call('prctl', 22, 0, 0, 0, 0)\nopen(OUT, 'w')"),
    Escape(
        "another filter",
        "import struct, ctypes\ncode = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0x7fff0000))\n"
        "call('seccomp', 1, 0, struct.pack('HxxxxxxP', 1, ctypes.addressof(code)))\nopen(OUT, 'w')",
    ),
    Escape("capabilities", "import struct\ncall('capset', struct.pack('=II', 0x20080522, 0), struct.pack('=6I', *[2**32 - 1] * 6))\nopen(OUT, 'w')"),
    Escape("another user", "import os\nos.setuid(0)\nos.setresuid(0, 0, 0)\nopen(OUT, 'w')"),
    Escape("numbers of x32", "import os\nprint(os.read(call(0x40000000 + 2, SECRET.encode(), 0, 0), 100))", works=False),
    Escape("numbers that do not exist", "[call(number, 0, 0, 0) for number in range(500, 600)]\nopen(OUT, 'w')"),
    Escape("limits of itself", "import resource\nfor which in range(16):\n    try: resource.setrlimit(which, (-1, -1))\n    except Exception: pass\nopen(OUT, 'w')"),
    Escape("inherited descriptors", "import os\nfor fd in range(1024):\n    if fd != 3:\n        try: print(fd, os.pread(fd, 100, 0))\n        except OSError: pass", works=False),
    Escape("terminal", "open('/dev/tty', 'w').write('x')\nopen(OUT, 'w')", works=False),
    Escape("standard streams", "import os, sys\nfor fd in (0, 1, 2):\n    try: os.write(fd, b'TO THE TERMINAL')\n    except OSError: pass\nsys.__stdout__.write('TO THE TERMINAL')\nsys.__stdout__.flush()", works=False),
]  # fmt: skip

_FORGED = [
    Escape("answer forged", _sent("{'op': 'tell', 'name': 'final', 'args': {'text': 'forged', 'spans': [[-5, 10**30]]}}")),
    Escape("wild spans", _sent("{'op': 'tell', 'name': 'touch', 'args': {'how': 'peek', 'spans': [[-5, 10**30], 'x', None]}}")),
    Escape("wild call", _sent("{'op': 'call', 'id': 1, 'name': '__class__', 'args': {'query': {}, 'parts': 7}}")),
    Escape("end forged", _sent("{'op': 'done', 'turn': 1, 'status': 'final', 'output': 'x' * 10**6, 'chars': -1}")),
    Escape("end without a turn", _sent("{'op': 'done', 'turn': 99, 'status': [], 'output': None, 'chars': 'x'}")),
    Escape("a length of 4 GiB", "import os\nos.write(3, b'\\xff' * 4 + b'x' * 1000)"),
    Escape("a long frame that never ends", "import os\nos.write(3, (60 * 2**20).to_bytes(4, 'big'))\nwhile True: os.write(3, b' ' * 65536)"),
    Escape("no JSON", "import os\nos.write(3, b'\\0\\0\\0\\x04xxxx')"),
    Escape("not an object", "import os\nos.write(3, b'\\0\\0\\0\\x04[{}]')"),
    Escape("an unknown op", _sent("{'op': '__import__'}")),
    Escape("deep nesting", "import os\nb = b'{\"op\":' + b'[' * 10**6 + b']' * 10**6 + b'}'\nb = len(b).to_bytes(4, 'big') + b\nwhile b: b = b[os.write(3, b):]"),
    Escape("much memory out of few bytes", "import os\nb = b'{\"op\":\"tell\",\"name\":\"x\",\"args\":{\"a\":[' + b'{},' * 10**7 + b'1]}}'\nb = memoryview(len(b).to_bytes(4, 'big') + b)\nwhile b: b = b[os.write(3, b):]"),
    Escape("a call's number twice", "import os, json\nb = json.dumps({'op': 'call', 'id': 5, 'name': 'wait', 'args': {}}).encode()\nos.write(3, (len(b).to_bytes(4, 'big') + b) * 2)"),
    Escape("a flood of messages", "import os, json\nb = json.dumps({'op': 'tell', 'name': 'touch', 'args': {}}).encode()\nb = (len(b).to_bytes(4, 'big') + b) * 1000\nwhile True: os.write(3, b)"),
    Escape("a flood of calls", "import os, json, itertools\nfor n in itertools.count(1):\n    b = json.dumps({'op': 'call', 'id': n, 'name': 'wait', 'args': {}}).encode()\n    os.write(3, len(b).to_bytes(4, 'big') + b)"),
    Escape("half characters", _sent("{'op': 'tell', 'name': 'final', 'args': {'text': '\\ud800', 'spans': []}}")),
    Escape("half a frame", "import os\nos.write(3, b'\\0\\0\\x10\\0{')", 0.3),
    Escape("ready again, refused", "import os\nfor b in (b'{\"op\":\"ready\"}', b'{\"op\":\"refused\",\"why\":7}'): os.write(3, len(b).to_bytes(4, 'big') + b)"),
]  # fmt: skip

_EXHAUSTION = [
    Escape("memory", "a = []\nwhile True: a.append(bytearray(2**24))"),
    Escape("one large object", "a = 'x' * 2**33"),
    Escape("memory by mmap", "import mmap\na = []\nwhile True: a.append(mmap.mmap(-1, 2**26))"),
    Escape("threads", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"),
    Escape(
        "threads by number",
        "import ctypes, time\nflags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000\nstack = ctypes.create_string_buffer(2**20)\nlib = library()\n"
        "top = ctypes.addressof(stack) + 2**20 - 4096\nwhile True: lib.clone(ctypes.cast(lib.pause, ctypes.c_void_p), ctypes.c_void_p(top), flags, None)",
        5.0,
    ),
    Escape("forks", "import os\nwhile True: os.fork()"),
    Escape("forks whatever comes", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", 0.3),
    Escape("descriptors", "import os\na = []\nwhile True: a.append(os.pipe())"),
    Escape("output", "while True: print('x' * 10**6)", 0.5),
    Escape("output from a thread", "import threading\ndef go():\n    while True: print('x' * 1000)\nthreading.Thread(target=go, daemon=True).start()"),
    Escape("recursion", "import sys\nsys.setrecursionlimit(2**31 - 1)\ndef f():\n    x = bytes(10_000)\n    f()\nf()"),
    Escape("recursion in C", "import sys\nsys.setrecursionlimit(2**31 - 1)\na = []\nfor _ in range(10**6): a = [a]\nrepr(a)"),
    Escape("processor", "while True: pass", 0.3),
    Escape("processor, signals ignored", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", 0.3),
    Escape("processor, interrupts caught", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", 0.3),
    Escape("processor in C", "10 ** 10 ** 9 % 7", 0.3),
    Escape("processor in threads", "import threading\ndef go():\n    while True: pass\nfor _ in range(8): threading.Thread(target=go, daemon=True).start()"),
    Escape("a pattern without end", "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')", 0.3),
    Escape("sleep", "import time\ntime.sleep(10**6)", 0.3),
    Escape("exit", "import os\nos._exit(0)"),
    Escape("exit by exception", "raise SystemExit(3)"),
    Escape("all descriptors closed", "import os\nos.closerange(0, 100)"),
    Escape("all descriptors closed, alive", "import os\nos.closerange(0, 100)\nwhile True: pass", 0.5),
    Escape("connection replaced", "import os\nos.dup2(0, 3)\nwhile True: pass", 0.5),
    Escape("crash", "import ctypes\nctypes.memset(0, 1, 1)"),
    Escape("abort", "import os\nos.abort()"),
    Escape("builtins gone", "import builtins\nfor n in dir(builtins):\n    if n not in ('delattr', 'n'): delattr(builtins, n)"),
    Escape("modules gone", "import sys\nsys.modules.clear()"),
    Escape("an exception that cannot be shown", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", 0.3),
    Escape("a value that cannot be shown", "class V:\n    def __repr__(self):\n        while True: pass\nV()", 0.3),
    Escape("an interrupt as an exception", "raise KeyboardInterrupt"),
    Escape("a timer of its own", "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\nwhile True: pass", 0.5),
]  # fmt: skip

ESCAPES = [*_FILES, *_ENVIRONMENT, *_NETWORK, *_PROCESSES, *_OTHERS, *_SYSTEM]

ATTACKS = [one._replace(works=False) for one in [*_FORGED, *_EXHAUSTION]]


def some_quick(escapes: Iterable[Escape]) -> list[Any]:
    """Return parameters for a test; four of five are slow."""
    return [
        pytest.param(escape, id=escape.name, marks=[pytest.mark.slow] if n % 5 else [])
        for n, escape in enumerate(escapes)
    ]
