"""Finds, from the text of code alone, what it does that no undo takes back: files, programs, connections.

It guards against surprises, not against malice: what it does not find is noticed when it happens, and named beside the changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mahtab_tui.bus.slicing import parsed
from mahtab_tui.session.names_in_code import Names

_MODULES = frozenset(
    "subprocess shutil socket socketserver urllib.request http.client http.server ftplib smtplib poplib imaplib xmlrpc webbrowser pty"
    " multiprocessing ctypes runpy sqlite3 dbm shelve"
    " requests httpx aiohttp urllib3 websockets paramiko boto3 sqlalchemy psycopg psycopg2 pymysql redis pymongo".split()
)
"""Modules for files, programs, connections, and for code that cannot be read here."""
_FUNCTIONS = frozenset("exec eval compile __import__ breakpoint exit quit".split())
"""Built-in functions that run code or leave."""
_OF_OS = frozenset(
    "system popen remove unlink rename renames replace mkdir makedirs rmdir removedirs truncate link symlink mkfifo chmod chown utime kill killpg"
    " open write fork forkpty abort _exit".split()
)
_METHODS = frozenset(
    "write writelines write_text write_bytes unlink rmdir mkdir touch symlink_to hardlink_to chmod"
    " to_csv to_json to_excel to_parquet to_feather to_hdf to_pickle to_sql to_stata to_html to_latex to_xml to_orc to_gbq to_clipboard"
    " write_csv write_json write_ndjson write_parquet write_ipc write_excel write_avro write_database write_delta sink_csv sink_parquet sink_ipc"
    " save savez savez_compressed savetxt savefig imsave tofile dump memmap"
    " connect execute executemany commit send sendall sendto urlopen urlretrieve".split()
)
"""Attributes whose names say that something is written or sent, of whatever object."""
_BEHIND = frozenset(
    "importlib imp builtins gc weakref atexit signal types marshal pickle cPickle dill cloudpickle joblib code codeop pty posix nt fcntl termios mmap"
    " concurrent threading _thread sched zipimport pkgutil pip ensurepip venv faulthandler readline inspect opcode dis bdb pdb trace"
    " h5py duckdb tables netCDF4 lmdb zmq grpc kafka pika torch tensorflow cv2 lance deltalake rasterio tempfile logging fileinput".split()
)
"""Modules that run code later or from data, reach everything, or write by native code that Python hears nothing of."""
_OF_SYS = frozenset(
    "sys.modules sys.meta_path sys.path_hooks sys.path_importer_cache sys.settrace sys.setprofile sys.excepthook sys.displayhook sys.unraisablehook"
    " sys.breakpointhook sys._getframe sys._current_frames sys.addaudithook sys.monitoring sys.stdin sys.stdout.buffer sys.stderr.buffer".split()
)
_BY_NAME = frozenset(("getattr", "setattr", "delattr"))
_REACHING = frozenset("vars globals locals create edit open_in_editor".split())
"""Names that reach every variable, and our own tools that write files."""
_KNOWN = frozenset(
    "__name__ __doc__ __file__ __version__ __all__ __init__ __str__ __repr__ __len__ __iter__ __next__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__ __add__"
    " __mul__ __sub__ __contains__ __getitem__ __setitem__ __call__ __enter__ __exit__ __post_init__ __slots__ __class__ __annotations__ __qualname__"
    " __module__ __len__ __bool__ __float__ __int__ __radd__ __truediv__ __neg__ __abs__ __matmul__ __aenter__ __aexit__ __array__".split()
)
"""Names with underscores that harm nobody."""
_INTO_FRAMES = frozenset(
    "f_back f_globals f_locals f_builtins f_code tb_frame tb_next gi_frame gi_code cr_frame cr_code ag_frame ag_code func_globals _fork_exec attrgetter"
    " methodcaller".split()
)
_CODE_OF_DATA = frozenset("read_pickle unpickle write_table write_to_dataset write_dataset write_feather imwrite FileHandler".split())
"""Attributes that run code from data, or write by native code."""
_STREAMS = ("sys.stdout", "sys.stderr")
_SET = ("pandas.options.", "matplotlib.rcParams")
"""Settings of libraries that code may assign to."""
_SEARCHES = frozenset(("rlm", "arlm", "Searcher"))
_PRINTS = ("sys.stdout.write", "sys.stderr.write")
_READ = 100_000
"""Characters of code that are looked through while the screen waits."""
_SHOWN = 80
_MODE, _WRITING = frozenset("rwaxbt+"), frozenset("wax+")
"""Letters of a mode of `open`, and those that write."""


def lasting_effect(code: str) -> str:
    """Return what the code mentions that has effects outside the kernel, as it is written there; empty if nothing was found."""
    tree = parsed(code)
    if tree is None:  # a magic, a command of the shell, or an error
        return "a line that is not plain Python"
    names = Names(tree)
    return next((effect for node in ast.walk(tree) for effect in effects_at(node, names)), "")


def tools_of_searches(code: str) -> str:
    """Return the functions that the code hands to the model of a search, as they are written there; empty if none was found."""
    tree = parsed(code) if "tools" in code and len(code) <= _READ else None
    handed = [ast.unparse(tools) for node in ast.walk(tree) if (tools := _tools(node)) is not None] if tree is not None else []
    found = ", ".join(dict.fromkeys(handed))
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "…"


def _tools(node: ast.AST) -> ast.expr | None:
    """Return the argument `tools` of a search, or arguments that may have it."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords) if name in _SEARCHES:
            return next((keyword.value for keyword in keywords if keyword.arg in ("tools", None)), None)
    return None


def effects_at(node: ast.AST, names: Names) -> Iterator[str]:
    """Yield what a node of the tree does outside the kernel, as it is written there."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names if _is_module(alias.name))
        case ast.ImportFrom(module=str(module)):
            imported = [alias.name for alias in node.names]
            yield from (f"{module}.{name}" for name in imported if _is_module(module) or _is_module(f"{module}.{name}"))
            yield from (f"os.{name}" for name in imported if module == "os" and (name in _OF_OS or name == "*" or _starts_program(name)))
        case ast.Name(id=name, ctx=ast.Load()) if name in _FUNCTIONS or _is_module(name) or _is_effect(names.dotted(node)):
            yield name
        case ast.Attribute(attr=name) if names.dotted(node).startswith("os.") and _is_effect(names.dotted(node)):
            yield f"os.{name}"
        case ast.Attribute(attr=name) if name in _METHODS and names.dotted(node) not in _PRINTS:
            yield f".{name}"
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]) if name in _METHODS or _is_effect(names.dotted(node)):
            yield f".{name}"
        case ast.Call() if _tools(node) is not None:
            yield "a function given to rlm()"
        case ast.Call(func=ast.Name(id="open")) if not _only_reads(node):
            yield "open"
        case ast.Call(func=ast.Attribute(attr="open")) if any(map(_is_writing_mode, node.args[:2])):
            yield ".open"


def _is_effect(dotted: str) -> bool:
    """Whether a full name is a module of those, something in one, or a function of `os`."""
    module, _, name = dotted.rpartition(".")
    return _is_module(dotted) or (module in ("os", "posix") and (name in _OF_OS or _starts_program(name)))


def ways_around(tree: ast.AST, names: Names) -> str:
    """Return what in code could do more than its text tells, or later than its cell, as it is written there; empty if nothing was found."""
    return next((way for node in ast.walk(tree) for way in _ways_at(node, names)), "")


def _ways_at(node: ast.AST, names: Names) -> Iterator[str]:
    match node:
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases if alias.name.partition(".")[0] in _BEHIND)
        case ast.ImportFrom(module=module, names=aliases):
            yield from (alias.name for alias in aliases if alias.name == "*" or f"{module}.{alias.name}" in _OF_SYS)
            if (module or "?").partition(".")[0] in _BEHIND:
                yield module or "?"
        case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(value=str(attr)), *_]) if name in _BY_NAME:
            yield from _ways_of(attr)
            if name != "getattr" and names.dotted(node.args[0]).partition(".")[0] in names.imported:
                yield name
        case ast.Call(func=ast.Name(id="print"), keywords=keywords) if any(
            keyword.arg in ("file", None) and names.dotted(keyword.value) not in _STREAMS for keyword in keywords
        ):
            yield "print(file=…)"
        case ast.Call(func=ast.Name(id=name)) if name in _BY_NAME:
            yield name
        case ast.Name(id=name) if name in _REACHING or _is_hidden(name):
            yield name
        case ast.Attribute(attr=name, ctx=ctx):
            yield from _ways_of(name)
            dotted = names.dotted(node)
            if dotted in _OF_SYS or dotted.partition(".")[0] in _BEHIND:
                yield dotted
            if not isinstance(ctx, ast.Load) and _root(node.value) in names.imported and not dotted.startswith(_SET):
                yield dotted


def _ways_of(attribute: str) -> Iterator[str]:
    if _is_hidden(attribute) or attribute in _INTO_FRAMES or attribute in _CODE_OF_DATA:
        yield f".{attribute}"


def _is_hidden(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _KNOWN


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_module(name: str) -> bool:
    """Whether a module, or a package that it is in, is one of those."""
    parts = name.split(".")
    return any(".".join(parts[:count]) in _MODULES for count in range(1, len(parts) + 1))


def _starts_program(name: str) -> bool:
    return name.startswith(("exec", "spawn", "posix_spawn"))


def _only_reads(call: ast.Call) -> bool:
    """Whether `open` is called with a mode that only reads, or with none."""
    unpacked = (argument for argument in call.args if isinstance(argument, ast.Starred))
    modes = [*unpacked, *call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg in ("mode", None))]
    return all(isinstance(mode, ast.Constant) and not _is_writing_mode(mode) for mode in modes)


def _is_writing_mode(argument: ast.expr) -> bool:
    """Whether an argument is a mode of `open` that writes."""
    mode = argument.value if isinstance(argument, ast.Constant) else None
    return isinstance(mode, str) and _MODE.issuperset(mode) and not _WRITING.isdisjoint(mode)
