"""Cells that try to act outside the namespace although they may only read.

`P` is a file that must not appear, `Q` one that must not change, `D` a folder with a file, `PORT`
a port that nobody may connect to. `LATER` is what the user runs afterwards.
"""

import re

LATER = "import asyncio, gc; await asyncio.sleep(0.05); gc.collect(); str(1); print('x'); import glob, time; glob.glob('*'); [len(str(i)) for i in range(3)]; time.sleep(0.05)"

_MAKE_WRITABLE = "import ctypes; c = ctypes.CDLL(None); c.mprotect(ctypes.c_void_p({0}), ctypes.c_size_t(4096), 3); ctypes.memset({0}, 9, 8)"

_FORGE = (
    "import struct\n"
    "for fd in range(500, 510):\n"
    "    try:\n"
    "        unsent = memoryview(struct.pack('!QQ', len(text), len(data)) + text + data)\n"
    "        while unsent: unsent = unsent[os.write(fd, unsent):]\n"
    "    except OSError: pass"
)
_DONE = (
    "{'op': 'done', 'status': 'ok', 'pieces': [], 'frames': [], 'needs': '', 'modules': [], 'deleted': [], 'lost': [], 'settings': [],"
    " 'values': [[%r, 'data', [0, %d]]]}"
)

_CELLS = {
    # files
    "plain open": "open(P, 'w')",
    "append": "open(Q, 'a').write('x')",
    "read and write": "open(Q, 'r+').truncate()",
    "exclusive": "open(P, 'xb')",
    "io.open": "import io; io.open(P, 'w')",
    "FileIO": "import _io; _io.FileIO(P, 'w')",
    "pathlib write_text": "pathlib.Path(P).write_text('x')",
    "pathlib touch": "pathlib.Path(P).touch()",
    "pathlib unlink": "pathlib.Path(Q).unlink()",
    "os.open": "os.open(P, os.O_CREAT | os.O_WRONLY)",
    "os.open of a folder": "f = os.open(D, os.O_RDONLY); os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=f)",
    "os.remove": "os.remove(Q)",
    "posix.unlink": "posix.unlink(Q)",
    "os.rename": "os.rename(Q, P)",
    "os.replace": "os.replace(Q, P)",
    "os.mkdir": "os.mkdir(P)",
    "os.makedirs": "os.makedirs(P + '/a')",
    "os.mkfifo": "os.mkfifo(P)",
    "os.mknod": "posix.mknod(P)",
    "os.symlink": "os.symlink(Q, P)",
    "os.link": "os.link(Q, P)",
    "os.truncate": "os.truncate(Q, 0)",
    "os.chmod": "os.chmod(Q, 0)",
    "os.utime": "os.utime(Q, (0, 0))",
    "os.setxattr": "os.setxattr(Q, 'user.x', b'y')",
    "shutil.rmtree": "shutil.rmtree(D)",
    "shutil.copy": "shutil.copy(Q, P)",
    "shutil.move": "shutil.move(Q, P)",
    "shutil.make_archive": "shutil.make_archive(P, 'zip', D)",
    "tempfile": "import tempfile; f, n = tempfile.mkstemp(dir=D); os.rename(n, P)",
    "zipfile": "import zipfile; zipfile.ZipFile(P, 'w').writestr('a', 'b')",
    "gzip": "import gzip; gzip.open(P, 'wb').write(b'x')",
    "sqlite file": "import sqlite3; sqlite3.connect(P).execute('create table a (b)').connection.commit()",
    "sqlite attach": "import sqlite3; c = sqlite3.connect(':memory:'); c.execute('attach ? as x', (P,)); c.execute('create table x.a (b)'); c.commit()",
    "shelve": "import shelve; shelve.open(P)['a'] = 1",
    "dbm.dumb": "import dbm.dumb; dbm.dumb.open(P, 'c')",
    "logging": "import logging; logging.FileHandler(P)",
    "mmap": "import mmap; f = open(Q, 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'z'",
    "own memory": "f = open('/proc/self/mem', 'r+b')\nopen(P, 'w')",
    "pandas": "pandas.DataFrame({'a': [1]}).to_csv(P)",
    "numpy": "import numpy; numpy.array([1]).tofile(P)",
    "matplotlib": "from matplotlib.figure import Figure; Figure().savefig(P, format='png')",
    "our create": "create(P, 'x')",
    "our edit": "edit(Q, 'kept', 'lost')",
    "ssl keys": "import ssl; ssl.create_default_context().keylog_filename = P",
    "faulthandler": "import faulthandler; faulthandler.enable(open(P, 'w'))",
    # programs
    "os.system": "os.system('touch ' + P)",
    "os.popen": "os.popen('touch ' + P).read()",
    "subprocess": "subprocess.run(['touch', P])",
    "os.posix_spawn": "os.waitpid(os.posix_spawn('/usr/bin/touch', ['touch', P], {}), 0)",
    "os.fork": "if not os.fork():\n    open(P, 'w'); os._exit(0)",
    "os.forkpty": "if not os.forkpty()[0]:\n    open(P, 'w'); os._exit(0)",
    "os.execv": "os.execv('/usr/bin/touch', ['touch', P])",
    "multiprocessing": "import multiprocessing as m; p = m.get_context('fork').Process(target=open, args=(P, 'w')); p.start(); p.join()",
    "multiprocessing spawn": "import multiprocessing as m; p = m.get_context('spawn').Process(target=open, args=(P, 'w')); p.start(); p.join()",
    "process pool": "from concurrent.futures import ProcessPoolExecutor as E; E(1).submit(open, P, 'w').result()",
    "fork_exec": "r, w = os.pipe()\nsubprocess._fork_exec([b'/usr/bin/touch', P.encode()], [b'/usr/bin/touch'], True, (), None, None,"
    " -1, -1, -1, -1, -1, -1, r, w, False, False, 0, None, None, None, -1, None, False)",
    "asyncio program": "await (await asyncio.create_subprocess_exec('touch', P)).wait()",
    "a command of the shell": "!touch {P}",
    "a terminal program": "h = next(m for n, m in sys.modules.items() if n.endswith('.host')); h.Host.call('terminal', {'argv': ['touch', P], 'cwd': D})",
    "webbrowser": "import webbrowser; webbrowser.get('touch %s').open(P)",
    # connections
    "socket": "socket.create_connection(('127.0.0.1', PORT))",
    "socket of a file": "s = socket.socket(); s.connect(('127.0.0.1', PORT))",
    "connect_ex": "socket.socket().connect_ex(('127.0.0.1', PORT))",
    "urllib": "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{PORT}/', timeout=1)",
    "http.client": "import http.client; http.client.HTTPConnection('127.0.0.1', PORT, timeout=1).request('GET', '/')",
    "requests": "import requests; requests.get(f'http://127.0.0.1:{PORT}/', timeout=1)",
    "asyncio connection": "await asyncio.open_connection('127.0.0.1', PORT)",
    "pandas from the net": "pandas.read_csv(f'http://127.0.0.1:{PORT}/')",
    "code of eval for later": "later = eval(\"(open(P, 'w') for _ in [1])\")",
    # hidden names
    "getattr": "getattr(os, 'rem' + 'ove')(Q)",
    "__import__": "__import__('o' + 's').remove(Q)",
    "importlib": "import importlib; importlib.import_module('shut' + 'il').rmtree(D)",
    "sys.modules": "sys.modules['os'].remove(Q)",
    "__builtins__": "__builtins__.open(P, 'w')",
    "builtins dict": "builtins.__dict__['op' + 'en'](P, 'w')",
    "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__['system']('touch ' + P)",
    "globals of a function": "glob.glob.__globals__['os'].remove(Q)",
    "eval": "eval('open(P, \"w\")')",
    "exec with a name of the kernel's": "exec(compile('open(P, \"w\")', '<frozen importlib._bootstrap_external>', 'exec'))",
    "marshal": "import marshal; c = compile('open(P, \"w\")', 'x', 'exec'); exec(marshal.loads(marshal.dumps(c)))",
    "code.replace": "def f(): open(P, 'w')\nexec(f.__code__.replace(co_name='g', co_filename='/usr/lib/x.py'))",
    "FunctionType": "import types; types.FunctionType(compile('open(P, \"w\")', 'x', 'exec'), globals())()",
    "pickle": "pickle.loads(b'cos\\nsystem\\n(S\"touch ' + P.encode() + b'\"\\ntR.')",
    "reduce": "class A:\n    def __reduce__(self): return os.remove, (Q,)\npickle.loads(pickle.dumps(A()))",
    "decorator": "@os.remove\n@(lambda f: Q)\nclass A: pass",
    "metaclass": "class M(type):\n    def __del__(c): os.remove(Q)\n    def __call__(c): os.remove(Q)\nclass A(metaclass=M): pass\nA()",
    "map": "list(map(os.remove, [Q]))",
    "sorted": "sorted([Q], key=os.remove)",
    "reduce of functools": "functools.reduce(os.rename, [Q, P])",
    "methodcaller": "import operator; operator.methodcaller('write_text', 'x')(pathlib.Path(P))",
    "partial": "functools.partial(os.remove, Q)()",
    "ctypes": "ctypes.CDLL(None).unlink(Q.encode())",
    "ctypes pythonapi": "ctypes.pythonapi.PyRun_SimpleString(b'1')\nopen(P, 'w')",
    # later
    "thread": "t = threading.Thread(target=os.remove, args=(Q,)); t.start(); t.join()",
    "raw thread": "import _thread; _thread.start_new_thread(os.remove, (Q,)); time.sleep(0.1)",
    "timer": "threading.Timer(0.01, os.remove, [Q]).start()",
    "a thread with its own beginning": "class T(threading.Thread): pass\nt = T(); T._bootstrap_inner = functools.partial(os.remove, Q)\n"
    "t.start(); time.sleep(0.1)",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor as E; import os; E(1).submit(os.remove, Q).exception()",
    "the user's thread pool": "POOL.submit(os.remove, Q).exception()",
    "task": "await asyncio.sleep(0)\nasync def f():\n    await asyncio.sleep(0.01); os.remove(Q)\nt = asyncio.create_task(f()); await asyncio.sleep(0)",
    "call_later": "await asyncio.sleep(0); asyncio.get_running_loop().call_later(0.01, os.remove, Q); await asyncio.sleep(0)",
    "to_thread": "await asyncio.sleep(0); t = asyncio.create_task(asyncio.to_thread(os.remove, Q)); await asyncio.sleep(0.05)",
    "atexit": "atexit.register(os.remove, Q)",
    "atexit of Python code": "atexit.register(shutil.rmtree, D)",
    "finalize": "class A: pass\na = A(); weakref.finalize(a, shutil.rmtree, D)",
    "__del__": "class A:\n    def __del__(self): os.remove(Q)\na = A(); b = [a]; b.append(b); del a, b",
    "__del__ at the end": "class A:\n    def __del__(self, remove=os.remove): remove(Q)\nkept = A()",
    "generator": "def f():\n    yield 1\n    os.remove(Q)\ng = f(); next(g)\nimport builtins; builtins.later = g",
    "generator that is closed": "def f():\n    try: yield 1\n    finally: os.remove(Q)\ng = f(); next(g); del g",
    "signal": "signal.signal(signal.SIGALRM, lambda *a: shutil.rmtree(D)); signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.05)",
    "signal of native code": "signal.signal(signal.SIGALRM, functools.partial(shutil.rmtree, D));"
    " signal.setitimer(signal.ITIMER_REAL, 0.02)",
    "trace": "sys.settrace(lambda *a: os.remove(Q))",
    "excepthook": "sys.excepthook = lambda *a: os.remove(Q)\n1/0",
    "displayhook": "sys.displayhook = lambda v: os.remove(Q)\n1",
    "builtins.print": "builtins.print = lambda *a: os.remove(Q)",
    "a function of a module": "glob.glob = lambda *a: os.remove(Q)",
    "repr": "class A:\n    def __repr__(self): os.remove(Q); return ''\nA()",
    "html": "class A:\n    pass\nA._repr_html_ = functools.partial(os.remove, Q)\nA()",
    "audit hook": "sys.addaudithook(lambda *a: None); os.remove(Q)",
    # the hook itself
    "frames": "f = sys._getframe()\nwhile f: f.f_locals.clear(); f = f.f_back\nopen(P, 'w')",
    "traceback frames": "try: 1/0\nexcept Exception as e: f = e.__traceback__.tb_frame.f_back\nopen(P, 'w')",
    "generator frame": "g = (i for i in [1]); g.gi_frame\nopen(P, 'w')",
    "inspect": "import inspect; inspect.currentframe().f_back.f_back\nopen(P, 'w')",
    "gc": "import gc\n[d.clear() for d in gc.get_objects() if type(d) is dict and '_marked' in d]\nopen(P, 'w')",
    "builtins of the hook": "for n in ('type', 'isinstance', 'len', 'str', 'callable', 'getattr'):\n    try: setattr(builtins, n, lambda *a: None)\n"
    "    except Exception: pass\nopen(P, 'w')",
    "recursion": "def f(n):\n    try: open(P, 'w')\n    except RecursionError: pass\n    except OSError: raise\n    f(n + 1)\ntry: f(0)\nexcept RecursionError: pass",
    "an argument that lies": "class S(str):\n    def __eq__(s, o): return True\n    def __hash__(s): return 0\nopen(S(P), S('w'))",
    "a path that changes": "class F:\n    n = 0\n    def __fspath__(self): F.n += 1; return '/dev/null' if F.n == 1 else P\nopen(F(), 'w')",
    "bytecode": "sys.dont_write_bytecode = False; sys.path.insert(0, D); import inside",
    "environment": "os.environ['MARK'] = 'set'",
    "folder": "os.chdir('/')",
    "kill": "os.kill(os.getppid(), 0)",
    "rlimit": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    # native code, and what the user has open
    "weakref of native code": "class A: pass\nkept = A(); r = weakref.ref(kept, functools.partial(lambda p, o: os.remove(p), Q))",
    "a partial in a module": "json.dumps = functools.partial(os.remove, Q)",
    "a partial of open": "class A: pass\nA.__repr__ = functools.partial(open, P, 'w'); a = A()",
    "map for later": "later = map(open, [P], ['w'])",
    "open by another name for later": "from io import open as o\nlater = map(o, [P], ['w'])",
    "open of a path for later": "later = map(pathlib.Path(P).open, ['w'])",
    "polars": "import polars; polars.DataFrame({'a': [1]}).write_csv(P)",
    "pyarrow": "import pyarrow as a, pyarrow.parquet as p; p.write_table(a.table({'a': [1]}), P)",
    "parquet of pandas": "pandas.DataFrame({'a': [1]}).to_parquet(P)",
    "the user's file": "FILE.write('x')",
    "the user's connection": "DATABASE.execute('delete from kept')",
    "print to the user's file": "print('x', file=FILE)",
    "h5-like native write": "c = ctypes.CDLL(None); c.open(P.encode(), 0o101, 0o600)",
    "native system": "ctypes.CDLL(None).system(b'touch ' + P.encode())",
    "memmap of the user": "MAPPED[:] = 0; MAPPED.flush()",
    "memmap by native protection": "c = ctypes.CDLL(None)\n"
    "c.mprotect(ctypes.c_void_p(MAPPED.ctypes.data), ctypes.c_size_t(4096), 3); MAPPED[0] = 9",
    **{
        f"memory that is read-only at the moment: {place}": _MAKE_WRITABLE.format(
            f"PLACES[{place!r}]"
        )
        for place in ("access", "prot", "memmap", "anonymous", "named")
    },
    "memory of an SQLite database": "rows = [row for row in open('/proc/self/maps') if 'mapped.db' in row]\n"
    "for row in rows:\n"
    "    start, end = (int(address, 16) for address in row.split()[0].split('-'))\n"
    "    ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3)\n"
    "    at = ctypes.string_at(start, end - start).index(b'original text')\n"
    "    ctypes.memset(start + at, 120, 8)",
    "holes in shared memory": "ctypes.CDLL(None).madvise(ctypes.c_void_p(PLACES['named']), ctypes.c_size_t(4096), 9)",
    "a second mapping of shared memory": "c = ctypes.CDLL(None); c.mremap.restype = ctypes.c_void_p\n"
    "p = c.mremap(ctypes.c_void_p(PLACES['prot']), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)\n"
    "c.mprotect(ctypes.c_void_p(p), ctypes.c_size_t(4096), 3); ctypes.memset(p, 9, 8)",
    "shared memory of the user": "SHARED.buf[0] = 9",
    "shared memory by name": "from multiprocessing import shared_memory as s; s.SharedMemory(name=SHARED.name).buf[0] = 9",
    "sql of pandas": "pandas.read_sql('drop table kept', DATABASE)",
    "a descriptor of the user": "os.write(FILE.fileno(), b'x')",
    "every descriptor": "for fd in range(3, 300):\n    try: os.write(fd, b'x' * 64)\n    except OSError: pass\nopen(P, 'w')",
    "truncate of the user's file": "FILE.truncate(0)",
    "limits of the kernel": "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (20, 20))",
    "priority of the kernel": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "signal to the kernel": "os.kill(os.getppid(), signal.SIGUSR1)",
    "a fork bomb": "for i in range(3): os.fork()",
    "a process of the C library": "ctypes.CDLL(None).posix_spawn",
    "locks taken away": "ctypes.CDLL(None).prctl(22, 0, 0, 0, 0); open(P, 'w')",
    "a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "a secret of the user's": "pathlib.Path(SECRET).read_text()",
    "memory of the kernel": "open(f'/proc/{os.getppid()}/environ').read()",
    "results that run code": "class E:\n    def __reduce__(self): return open, (P, 'w')\nresult = E()",
    "results that are forged": "import struct\n"
    "text = json.dumps({'op': 'done', 'status': 'ok', 'pieces': [], 'frames': [], 'needs': '', 'values': [['x', 'data', [0, 4]]],"
    " 'modules': ['antigravity'], 'deleted': [], 'lost': []}).encode()\n"
    "for fd in range(3, 2000):\n    try: os.write(fd, struct.pack('!QQ', len(text), 4) + text + b'junk')\n    except OSError: pass",
    "a forged name of Python": f"text, data = json.dumps({_DONE % ('__builtins__', 4)}).encode(), b'K\\x01..'\n{_FORGE}",
    "a forged text of many lists": f"text, data = b'[' + b'[],' * 5_000_000 + b'[]]', b''\n{_FORGE}",
    "forged data of many objects": f"data = b'\\x80\\x05(' + b']' * 20_000_000 + b'l.'\n"
    f"text = json.dumps({_DONE % ('x', 20_000_005)}).encode()\n{_FORGE}",
    "names of Python": "__name__ = 'x'; __builtins__ = {}; __loader__ = 5",
    "very many names": "for i in range(3_000): globals()[f'name{i}'] = i",
    "a name that the user calls": "from os import remove as print",
    "a function that the user calls": "def sorted(x): open(P, 'w')",
    "a class that the user calls": "class list:\n    def __init__(self, *a): open(P, 'w')",
    "code of the project": "sys.path.insert(0, D); import inside",
}

_MODULES = "asyncio atexit builtins ctypes functools glob json os pandas pathlib pickle posix resource shutil signal socket subprocess sys threading time weakref".split()


def _imports(code: str) -> str:
    imported_modules = [name for name in _MODULES if re.search(rf"\b{name}[.,)]", code)]
    return f"import {', '.join(imported_modules)}\n" if imported_modules else ""


CELLS = {attempt: _imports(code) + code for attempt, code in _CELLS.items()}
"""Code by attempt. Nothing may happen, and nothing may come back that acts later."""
