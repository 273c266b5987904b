"""`%run`: runs scripts, modules and notebooks."""

from __future__ import annotations

import builtins
import glob
import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, ModuleType
from typing import NamedTuple

from ..cells.compiling import compile_callable
from ..stdlib import late_import
from .state import MagicContext
from .syntax import transform
from .timing import report_profile, report_time

_OPTION_LETTERS = frozenset("inmtpeG")
_INSTEAD_OF_DEBUGGER = (
    "%run does not take -d: write breakpoint() into the script, or use %debug after an error"
)


class _ScriptOptions(NamedTuple):
    """The arguments of `%run`."""

    letters: frozenset[str]
    """i: in the namespace. n: `__name__` is not `__main__`. m: a module by its name. t: with its
    time. p: with a profile. e: ignore `sys.exit()`. G: arguments are not patterns of files."""
    target: str
    """The file or module."""
    arguments: list[str]


def run_script(rest: str, caller: MagicContext) -> None:
    """Run a script, a module or a notebook: ``%run [-i] [-n] [-m] [-t] [-p] FILE ARGUMENTS``."""
    options = _parse_options(rest)
    if options.target.endswith(".ipynb") and "m" not in options.letters:
        _run_notebook(options.target, caller)
        return
    run = _run_module if "m" in options.letters else _run_file
    run(options, caller)


def _parse_options(rest: str) -> _ScriptOptions:
    words: list[str] = late_import("shlex").split(rest)
    letters: set[str] = set()
    while words and re.fullmatch(r"-[A-Za-z]+", words[0]):
        option = words.pop(0)
        if "d" in option:
            raise ValueError(_INSTEAD_OF_DEBUGGER)
        if unknown := sorted(set(option[1:]) - _OPTION_LETTERS):
            raise ValueError(
                f"%run does not take -{unknown[0]}, only -i, -n, -m, -t, -p, -e and -G"
            )
        letters.update(option[1:])
    if not words:
        raise ValueError("%run needs a file, as in %run script.py, or a module, as in %run -m name")

    if "G" in letters:
        arguments = words[1:]
    else:
        arguments = _expand_patterns(words[1:])
    return _ScriptOptions(frozenset(letters), words[0], arguments)


def _expand_patterns(words: list[str]) -> list[str]:
    """Replace patterns such as ``*.csv`` by the files that match, as a shell does."""
    arguments: list[str] = []
    for word in words:
        path = os.path.expanduser(word)
        arguments += sorted(glob.glob(path)) or [path]
    return arguments


def _report(options: _ScriptOptions) -> AbstractContextManager[None]:
    """Return what prints the time or the profile of a script, if the options ask for it."""
    if "p" in options.letters:
        return report_profile()
    if "t" in options.letters:
        return report_time()
    return nullcontext()


def _find_file(target: str) -> str:
    """Return a script's path; as in IPython, its ``.py`` may be missing."""
    path = os.path.abspath(os.path.expanduser(target))
    if not os.path.exists(path) and os.path.exists(f"{path}.py"):
        return f"{path}.py"
    return path


def _run_file(options: _ScriptOptions, caller: MagicContext) -> None:
    path = _find_file(options.target)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)

    name = "__main__"
    if "n" in options.letters:
        name = os.path.splitext(os.path.basename(path))[0]
    with _ScriptEnvironment([path, *options.arguments], os.path.dirname(path)):
        if "i" in options.letters:
            _run_in_namespace(options, code, name, path, caller.namespace)
        else:
            _run_as_module(options, code, name, path, caller.namespace)


def _run_in_namespace(
    options: _ScriptOptions, code: CodeType, name: str, path: str, namespace: dict[str, object]
) -> None:
    """Run a script's code with the user's names."""
    own_names = {"__name__": name, "__file__": path}
    before = {key: namespace[key] for key in own_names if key in namespace}
    namespace.update(own_names)
    try:
        _execute(options, code, namespace)
    finally:
        for key in own_names:
            namespace.pop(key, None)
        namespace.update(before)


def _run_as_module(
    options: _ScriptOptions, code: CodeType, name: str, path: str, namespace: dict[str, object]
) -> None:
    """Run a script's code with names of its own. Those that it makes are copied, also after an
    error."""
    module = ModuleType(name)
    names = vars(module)
    # Those of this module import the library as only the worker uses it.
    names.update(__file__=path, __builtins__=builtins)
    main_before = sys.modules["__main__"]
    if name == "__main__":
        # Type hints and pickles look up the script's classes by the name of its module.
        sys.modules["__main__"] = module
    try:
        _execute(options, code, names)
    finally:
        sys.modules["__main__"] = main_before
        _copy_names(names, namespace)


def _execute(options: _ScriptOptions, code: CodeType, names: dict[str, object]) -> None:
    try:
        with _report(options):
            exec(code, names)
    except SystemExit as error:
        _report_exit(options, error)


def _report_exit(options: _ScriptOptions, error: SystemExit) -> None:
    if error.code not in (None, 0) and "e" not in options.letters:
        print(f"{options.target} ended with exit code {error.code}")


def _run_module(options: _ScriptOptions, caller: MagicContext) -> None:
    runpy = late_import("runpy")
    with _ScriptEnvironment([options.target, *options.arguments], os.getcwd()):
        try:
            with _report(options):
                names = runpy.run_module(options.target, run_name="__main__", alter_sys=True)
        except SystemExit as error:
            _report_exit(options, error)
            return
    _copy_names(names, caller.namespace)


def _copy_names(names: dict[str, object], namespace: dict[str, object]) -> None:
    for name, value in list(names.items()):
        if not name.startswith("__"):
            namespace[name] = value


class _ScriptEnvironment:
    """Sets `sys.argv` and the first folder of `sys.path` while a script runs."""

    def __init__(self, argv: list[str], folder: str) -> None:
        self._argv = argv
        self._folder = folder
        self._argv_before = sys.argv
        self._path_before = list(sys.path)

    def __enter__(self) -> None:
        sys.argv = self._argv
        sys.path.insert(0, self._folder)

    def __exit__(self, *error: object) -> None:
        sys.argv = self._argv_before
        sys.path[:] = self._path_before


def _run_notebook(target: str, caller: MagicContext) -> None:
    path = os.path.abspath(os.path.expanduser(target))
    with open(path, encoding="utf-8") as file:
        try:
            cells = late_import("json").load(file)["cells"]
            sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{target} is not a notebook in Jupyter's format 4") from None
    for number, source in enumerate(sources, 1):
        filename = f"<{os.path.basename(path)}, code cell {number}>"
        compile_callable(transform(source), filename, *caller)()
