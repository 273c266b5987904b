"""`%run`: runs scripts, modules and notebooks, as IPython does.

A script gets names of its own, as if it ran by itself, and what it has defined is copied to the
user's names; with ``-i`` it runs with the user's names. A notebook's cells always do.
"""

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
"""The options that `_ScriptOptions` explains, and G: the arguments are not patterns of files."""
_INSTEAD_OF_DEBUGGER = (
    "%run does not take -d: write breakpoint() into the script, or use %debug after an error"
)


class _ScriptOptions(NamedTuple):
    """The arguments of `%run`."""

    letters: frozenset[str]
    """The letters of the options. The properties say what they mean."""
    target: str
    """The file or module."""
    arguments: list[str]
    """What the script gets as `sys.argv[1:]`."""

    @property
    def runs_in_namespace(self) -> bool:
        """Whether the script gets the user's names."""
        return "i" in self.letters

    @property
    def is_main(self) -> bool:
        """Whether the script's `__name__` is ``__main__``."""
        return "n" not in self.letters

    @property
    def is_module(self) -> bool:
        """Whether the target is a module by its name."""
        return "m" in self.letters

    @property
    def reports_time(self) -> bool:
        """Whether the time that the script takes is printed."""
        return "t" in self.letters

    @property
    def reports_profile(self) -> bool:
        """Whether it is printed where the script spends its time."""
        return "p" in self.letters

    @property
    def ignores_exit(self) -> bool:
        """Whether nothing is printed if the script ends with an exit code that means failure."""
        return "e" in self.letters


def run_script(rest: str, caller: MagicContext) -> None:
    """Run a script, a module or a notebook: ``%run [-i] [-n] [-m] [-t] [-p] FILE ARGUMENTS``."""
    options = _parse_options(rest)
    if options.is_module:
        _run_module(options, caller)
    elif options.target.endswith(".ipynb"):
        _run_notebook(options.target, caller)
    else:
        _run_file(options, caller)


def _parse_options(rest: str) -> _ScriptOptions:
    """Parse what follows `%run`. Raises `ValueError` for options that it does not take."""
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

    target, *arguments = words
    if "G" not in letters:
        arguments = _expand_patterns(arguments)
    return _ScriptOptions(frozenset(letters), target, arguments)


def _expand_patterns(words: list[str]) -> list[str]:
    """Replace patterns such as ``*.csv`` by the files that match, as a shell does."""
    arguments: list[str] = []
    for word in words:
        path = os.path.expanduser(word)
        arguments += sorted(glob.glob(path)) or [path]
    return arguments


def _report(options: _ScriptOptions) -> AbstractContextManager[None]:
    """Return what prints the time or the profile of a script, if the options ask for it."""
    if options.reports_profile:
        return report_profile()
    if options.reports_time:
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
    if not options.is_main:
        name = os.path.splitext(os.path.basename(path))[0]
    with _ScriptEnvironment([path, *options.arguments], os.path.dirname(path)):
        if options.runs_in_namespace:
            _run_in_namespace(options, code, name, path, caller.namespace)
        else:
            _run_as_module(options, code, name, path, caller.namespace)


def _run_in_namespace(
    options: _ScriptOptions, code: CodeType, name: str, path: str, namespace: dict[str, object]
) -> None:
    """Run a script's code with the user's names."""
    own_names = {"__name__": name, "__file__": path}
    values_before = {key: namespace[key] for key in own_names if key in namespace}
    namespace.update(own_names)
    try:
        _execute(options, code, namespace)
    finally:
        for key in own_names:
            namespace.pop(key, None)
        namespace.update(values_before)


def _run_as_module(
    options: _ScriptOptions, code: CodeType, name: str, path: str, namespace: dict[str, object]
) -> None:
    """Run a script's code with names of its own. Those that it makes are copied, also after an
    error."""
    module = ModuleType(name)
    names = vars(module)
    # Without `__builtins__`, the script would get those of this module, which import the library as
    # only the worker uses it.
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
    """Run a script's code with these names. An exit of the script is not an error."""
    try:
        with _report(options):
            exec(code, names)
    except SystemExit as error:
        _report_exit(options, error)


def _report_exit(options: _ScriptOptions, error: SystemExit) -> None:
    if error.code not in (None, 0) and not options.ignores_exit:
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
    """Copy what a script has defined to the user's names, without names such as `__name__`."""
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
    """Run the code cells of a notebook. Raises `ValueError` for a file that is not a notebook."""
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
