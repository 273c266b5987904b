"""The ``%magic`` commands."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter, process_time
from types import ModuleType
from typing import Any, Callable

from .compiling import compile_callable
from .magics import MagicContext, Reloading
from .objects import is_module, own_dict
from .stdlib import importing_from, late_import
from .toolbox import report_exit
from .tracebacks import OUR_FOLDER
from .variables import HIDDEN, describe_variable, variable_kind


def _words(text: str) -> list[str]:
    words: list[str] = late_import("shlex").split(text)
    return words


def _env(rest: str, caller: MagicContext) -> str | None:
    name, sign, value = rest.strip().partition("=")
    if sign:
        os.environ[name.strip()] = value.strip()
        return None
    if name not in os.environ:
        raise KeyError(f"the environment has no {name}; to set it: %env NAME=VALUE")
    return os.environ[name]


def _list_variables(caller: MagicContext) -> list[dict[str, Any]]:
    listed = [
        describe_variable(name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN and name[:1] != "_"
    ]
    return [each for each in listed if each["kind"] == "data"]


def _whos(rest: str, caller: MagicContext) -> None:
    rows = [(each["name"], each["type"], each["summary"]) for each in _list_variables(caller)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else []
    for name, kind, summary in rows:
        print(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {summary}".rstrip())
    if not rows:
        print("There are no variables.")


def _cd(rest: str, caller: MagicContext) -> None:
    os.chdir(os.path.expanduser(rest.strip().strip("'\"") or "~"))
    print(os.getcwd())


_STANDARD = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    def __init__(self, *, automatic: bool) -> None:
        self._seen: dict[str, int] = {}
        self.automatic = automatic

    def note(self) -> None:
        for name, _, path in self._modules():
            if name not in self._seen:
                self._seen[name] = _changed(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        for name, module, path in self._modules():
            now = _changed(path)
            if name in self._seen and now and now != self._seen[name]:
                self._seen[name] = now
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # raised by the module's code
                    print(
                        f"{name} has changed, but cannot be reloaded: {type(error).__name__}: {error}"
                    )
                else:
                    print(f"{name} has changed and was reloaded")

    def _modules(self) -> Iterator[tuple[str, ModuleType, str]]:
        for name, module in list(sys.modules.items()):
            if name == "__main__" or not is_module(module):
                continue
            path = own_dict(module).get("__file__")
            if (
                type(path) is str
                and path.endswith(".py")
                and "site-packages" not in path
                and not path.startswith((_STANDARD, OUR_FOLDER))
            ):
                yield name, module, path


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Otherwise bytecode would count as current after a change within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))
    for name, value in list(namespace.items()):
        if variable_kind(value) not in ("function", "class"):
            continue
        attributes = [name, *before] if before.get(name) is value else before
        for attribute in attributes:
            if before[attribute] is value and attribute in after:
                namespace[name] = after[attribute]
                break


def _autoreload(rest: str, caller: MagicContext) -> None:
    mode = rest.strip()
    reloader = Reloading.reloader = Reloading.reloader or Reloader(automatic=False)
    if mode:
        reloader.automatic = mode != "0"
    else:
        reloader.reload(caller.namespace)


def _load_ext(rest: str, caller: MagicContext) -> None:
    if rest.strip() != "autoreload":
        raise ValueError("extensions are a feature of IPython; only autoreload is here")
    Reloading.reloader = Reloading.reloader or Reloader(automatic=False)


PIP = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def _pip(rest: str, caller: MagicContext) -> None:
    subprocess, words = late_import("subprocess"), _words(rest)
    command = [sys.executable, "-c", PIP, *words]
    folder = os.getcwd()
    with importing_from([entry for entry in sys.path if entry not in ("", ".", folder)]):
        has_pip = late_import("importlib.util").find_spec("pip") is not None
    if not has_pip:
        uv = late_import("shutil").which("uv")
        if uv is None:
            raise RuntimeError(
                f"The environment of {sys.executable} has no pip. `!{sys.executable} -m ensurepip` may install it."
            )
        command = [uv, "pip", *words[:1], "--python", sys.executable, *words[1:]]
    # A child process's direct output does not belong to the cell in the caller's own process.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
    importlib.invalidate_caches()
    report_exit(child.returncode)


def _run(rest: str, caller: MagicContext) -> None:
    words = _words(rest)
    if not words:
        raise ValueError("%run needs a file, as in %run script.py")
    path = os.path.abspath(os.path.expanduser(words[0]))
    if path.endswith(".ipynb"):
        raise ValueError("%run runs Python files, not notebooks")
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    own: dict[str, Any] = {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__}
    before = sys.argv, list(sys.path)
    sys.argv = [path, *words[1:]]
    sys.path.insert(0, os.path.dirname(path))
    try:
        exec(code, own)
    except SystemExit as error:
        if error.code not in (None, 0):
            print(f"{words[0]} ended with exit code {error.code}")
    finally:
        sys.argv, sys.path[:] = before
        made = {name: value for name, value in own.items() if not name.startswith("__")}
        caller.namespace.update(made)


def _bash(rest: str, caller: MagicContext) -> None:
    shell = "bash" if late_import("shutil").which("bash") else "sh"
    report_exit(late_import("subprocess").call([shell, "-c", rest]))


def _time(source: str, caller: MagicContext) -> Any:
    run = compile_callable(source, "<%time>", *caller)
    wall, processor = perf_counter(), process_time()
    try:
        return run()
    finally:
        wall, processor = perf_counter() - wall, process_time() - processor
        print(f"took {duration(wall)} (CPU: {duration(processor)})")


def _timeit(source: str, caller: MagicContext) -> None:
    options = {"-n": "0", "-r": "7"}
    while found := re.match(r"\s*(-[nr])\s*(\d+)[ \t]*", source):
        options[found[1]], source = found[2], source[found.end() :]
    if not source.strip():
        raise ValueError("%timeit needs code, as in %timeit -n LOOPS -r REPEATS sum(range(100))")
    timer = late_import("timeit").Timer(source.strip("\n"), globals=caller.namespace)
    loops, repeats = int(options["-n"]) or timer.autorange()[0], int(options["-r"]) or 1
    runs = [took / loops for took in timer.repeat(repeats, loops)]
    spread = statistics.pstdev(runs)
    print(
        f"{duration(statistics.fmean(runs))} ± {duration(spread)} per loop (of {repeats} runs with {loops:,} loops each; best {duration(min(runs))})"
    )


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


Command = Callable[[str, MagicContext], Any]

LINE_COMMANDS: dict[str, Command] = {
    "autoreload": _autoreload,
    "cd": _cd,
    "env": _env,
    "load_ext": _load_ext,
    "matplotlib": lambda rest, caller: None,
    "pip": _pip,
    "reload_ext": _load_ext,
    "run": _run,
    "time": _time,
    "timeit": _timeit,
    "whos": _whos,
}

CELL_COMMANDS: dict[str, Command] = {"bash": _bash, "sh": _bash, "time": _time, "timeit": _timeit}
