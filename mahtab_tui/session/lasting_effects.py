"""Finds, from the text of code alone, what it does that no undo takes back: files, programs, connections.

It guards against surprises, not against malice: what it does not find is noticed when it happens, and named beside the changes.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

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
_SEARCHES = frozenset(("rlm", "arlm", "Searcher"))
_READ = 100_000
"""Characters of code that are looked through while the screen waits."""
_SHOWN = 80
_MODE, _WRITING = frozenset("rwaxbt+"), frozenset("wax+")
"""Letters of a mode of `open`, and those that write."""


def lasting_effect(code: str) -> str:
    """Return what the code mentions that has effects outside the kernel, as it is written there; empty if nothing was found."""
    tree = _parsed(code)
    if tree is None:  # a magic, a command of the shell, or an error
        return "a line that is not plain Python"
    return next((effect for node in ast.walk(tree) for effect in _effects(node)), "")


def tools_of_searches(code: str) -> str:
    """Return the functions that the code hands to the model of a search, as they are written there; empty if none was found."""
    tree = _parsed(code) if "tools" in code and len(code) <= _READ else None
    handed = [ast.unparse(tools) for node in ast.walk(tree) if (tools := _tools(node)) is not None] if tree is not None else []
    found = ", ".join(dict.fromkeys(handed))
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "…"


def _parsed(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about escapes in strings would go to stderr
            tree: ast.AST = compile(code, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tools(node: ast.AST) -> ast.expr | None:
    """Return the argument `tools` of a search, or arguments that may have it."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords) if name in _SEARCHES:
            return next((keyword.value for keyword in keywords if keyword.arg in ("tools", None)), None)
    return None


def _effects(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names if _is_module(alias.name))
        case ast.ImportFrom(module=str(module)):
            names = [alias.name for alias in node.names]
            yield from (f"{module}.{name}" for name in names if _is_module(module) or _is_module(f"{module}.{name}"))
            yield from (f"os.{name}" for name in names if module == "os" and (name in _OF_OS or name == "*" or _starts_program(name)))
        case ast.Name(id=name) if name in _FUNCTIONS or name in _MODULES:
            yield name
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in _OF_OS or _starts_program(name):
            yield f"os.{name}"
        case ast.Attribute(attr=name) if name in _METHODS:
            yield f".{name}"
        case ast.Call() if _tools(node) is not None:
            yield "a function given to rlm()"
        case ast.Call(func=ast.Name(id="open")) if not _only_reads(node):
            yield "open"
        case ast.Call(func=ast.Attribute(attr="open")) if any(map(_is_writing_mode, node.args[:2])):
            yield ".open"


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
