"""The ``%magic`` commands."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import io
import os
import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter, process_time
from types import ModuleType
from typing import Any, Callable

from . import magics
from .compiling import compile_callable
from .displays import LARGEST_TEXT, Display, show
from .magics import LINES, SHELL, SUMMARIES, MagicContext
from .objects import is_module, own_dict
from .stdlib import importing_from, late_import
from .tracebacks import OUR_FOLDER
from .variables import HIDDEN, describe_variable, looks_secret, variable_kind


class CapturedOutput:
    """The captured output of a cell."""

    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return self.stdout

    def __repr__(self) -> str:
        return (
            f"<captured: {len(self.stdout):,} characters of stdout, {len(self.stderr):,} of stderr>"
        )

    def show(self) -> None:
        """Print the output again."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)


def capture(rest: str, caller: MagicContext) -> None:
    """Run the lines below without showing their output and value; the first line may name a
    variable for the output.

    Exceptions are still raised, after the variable has been set.
    """
    first, _, code = rest.partition("\n")
    words = late_import("shlex").split(first)
    names = [word for word in words if not word.startswith("-")]
    unknown = set(words) - set(names) - {"--no-stdout", "--no-stderr", "--no-display"}
    if len(names) > 1 or not all(map(str.isidentifier, names)) or unknown:
        raise ValueError(
            "%%capture takes at most one name, and --no-stdout or --no-stderr for output to be shown, as in %%capture printed"
        )
    run = compile_callable(code, "<%%capture>", *caller)
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        if "--no-stdout" not in words:
            stack.enter_context(contextlib.redirect_stdout(stdout))
        if "--no-stderr" not in words:
            stack.enter_context(contextlib.redirect_stderr(stderr))
        try:
            run()
        finally:
            caller.namespace.update(
                dict.fromkeys(names, CapturedOutput(stdout.getvalue(), stderr.getvalue()))
            )


def _shown_as(mime: str, text: str) -> None:
    text = text if text.endswith("\n") else text + "\n"
    show(Display(mime if len(text) <= LARGEST_TEXT else "", text, text))


def html(rest: str, caller: MagicContext) -> None:
    _shown_as("text/html", rest.partition("\n")[2])


def markdown(rest: str, caller: MagicContext) -> None:
    _shown_as("text/markdown", rest.partition("\n")[2])


def latex(rest: str, caller: MagicContext) -> None:
    _shown_as("text/markdown", f"```latex\n{rest.partition(chr(10))[2].strip()}\n```")


def _unsupported(name: str) -> Callable[[str, MagicContext], None]:
    def explain(rest: str, caller: MagicContext) -> None:
        print(f"\x1b[2m%%{name} does nothing here: a terminal cannot run or draw it.\x1b[22m")

    return explain


svg, javascript = _unsupported("svg"), _unsupported("javascript")
HTML, SVG, js = html, svg, javascript


def script(rest: str, caller: MagicContext) -> None:
    """Run a program with the cell as its input."""
    first, _, code = rest.partition("\n")
    words = [
        word
        for word in late_import("shlex").split(first)
        if word not in ("--no-raise-error", "--bg")
    ]
    if not words:
        raise ValueError("%%script needs a program, as in %%script perl")
    subprocess = late_import("subprocess")
    try:
        ended = subprocess.run(words, input=code.encode(), check=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no program {words[0]}.") from None
    if ended.returncode:
        print(f"exit code {ended.returncode}")


def _program(*words: str) -> Callable[[str, MagicContext], None]:
    def run(rest: str, caller: MagicContext) -> None:
        first, _, code = rest.partition("\n")
        script(f"{late_import('shlex').join(words)} {first}\n{code}", caller)

    return run


perl, ruby = _program("perl"), _program("ruby")
python = python3 = _program(sys.executable, "-")


_SECRET = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""More words in names of environment variables that may be secret."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
"""The login in a URL."""


def _show_setting(name: str, value: str) -> str:
    """Format an environment variable, hiding possible secrets."""
    secret = name != "PWD" and (
        looks_secret(name) or not _SECRET.isdisjoint(name.lower().split("_"))
    )
    return f"{name}={'<hidden>' if secret else _LOGIN.sub('<hidden>@', value)}"


def _names(rest: str, caller: MagicContext) -> list[dict[str, Any]]:
    """List the variables, optionally of some types only, without modules, functions and private
    names, like the namespace pane."""
    types = rest.split()
    public = [
        (name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN and name[:1] != "_"
    ]
    listed = [describe_variable(name, value) for name, value in public]
    return [each for each in listed if (each["type"] in types if types else each["kind"] == "data")]


def who(rest: str, caller: MagicContext) -> None:
    print("  ".join(each["name"] for each in _names(rest, caller)) or "There are no variables.")


def who_ls(rest: str, caller: MagicContext) -> list[str]:
    return sorted(each["name"] for each in _names(rest, caller))


def whos(rest: str, caller: MagicContext) -> None:
    rows = [(each["name"], each["type"], each["summary"]) for each in _names(rest, caller)]
    if not rows:
        print("There are no variables.")
        return
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, kind, summary in rows:
        print(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {summary}".rstrip())


def lsmagic(rest: str, caller: MagicContext) -> None:
    print("\n".join(SUMMARIES.values()))


def env(rest: str, caller: MagicContext) -> Any:
    name, sign, value = rest.strip().partition("=")
    if not sign:
        name, sign, value = rest.strip().partition(" ")
    if sign:
        os.environ[name.strip()] = value.strip()
        print(f"env: {_show_setting(name.strip(), value.strip())}")
        return None
    if name:
        if name not in os.environ:
            raise KeyError(f"the environment has no {name}; to set it: %env {name}=VALUE")
        return os.environ[name]
    for name, value in sorted(os.environ.items()):
        print(_show_setting(name, value))
    return None


def history(rest: str, caller: MagicContext) -> None:
    for number, source in enumerate(builtins.__dict__["In"]):
        if source:
            print(f"{number}: {source}" if "-n" in rest.split() else source)


def pwd(rest: str, caller: MagicContext) -> str:
    return os.getcwd()


set_env, hist = env, history


_INSTEAD = {
    "autosave": "the session is saved continuously",
    "colors": "the theme sets the colours (F10)",
    "config": "this is not IPython",
    "gui": "figures are shown automatically",
    "matplotlib": "figures are shown automatically",
    "pdb": "use %debug after an error",
    "precision": "numbers are shown as Python formats them",
    "reset": "F9 restarts the kernel, and Delete in the namespace pane deletes a variable",
    "store": "variables live as long as the kernel; Ctrl+S on an open variable writes it to a file",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
_NOT_NEEDED = frozenset(("autosave", "gui", "matplotlib"))


def _explain(name: str) -> Callable[[str, MagicContext], None]:
    def explain(rest: str, caller: MagicContext) -> None:
        needed = "is not needed" if name in _NOT_NEEDED else "does nothing here"
        print(f"\x1b[2m%{f'{name} {rest}'.strip()} {needed}: {_INSTEAD[name]}.\x1b[22m")

    return explain


def _show_figures(rest: str, caller: MagicContext) -> None:
    """Select the backend that shows figures here, even if MPLBACKEND or `matplotlib.use` selected
    another one."""
    plots = late_import(f"{__package__}.displays")
    try:
        importlib.import_module("matplotlib").use(plots.BACKEND)
    except ImportError:
        print("\x1b[2mmatplotlib is not installed: %pip install matplotlib.\x1b[22m")
    else:
        _explain("matplotlib")(rest, caller)


globals().update({name: _explain(name) for name in _INSTEAD}, matplotlib=_show_figures)


_STANDARD = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    """Remembers the modification times of loaded modules, and reloads modules whose file has
    changed."""

    def __init__(self, *, everywhere: bool = False, automatic: bool = True) -> None:
        """everywhere: include modules outside the working directory, except installed packages.
        automatic: reload before each cell."""
        self._seen: dict[str, int] = {}
        self._everywhere = everywhere
        self.automatic = automatic

    def note(self) -> None:
        """Remember the files of modules loaded since the last call."""
        for name, _, path in _own_modules(everywhere=self._everywhere):
            if name not in self._seen:
                self._seen[name] = _changed(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        """Reload changed modules and replace their functions and classes in the namespace. Failures
        are printed."""
        for name, module, path in _own_modules(everywhere=self._everywhere):
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


def autoreload(rest: str, caller: magics.MagicContext) -> None:
    """Turn reloading on or off, or reload changed modules once, like IPython's extension."""
    mode = rest.strip().lower()
    loaded = magics.Reloading.reloader
    reloader = (
        loaded
        if isinstance(loaded, Reloader) and loaded._everywhere
        else Reloader(everywhere=True, automatic=False)
    )
    if mode in ("", "now"):
        reloader.reload(caller.namespace)
    elif mode in ("0", "off", "1", "explicit", "2", "complete", "3", "all"):
        reloader.automatic = mode not in ("0", "off")
    else:
        raise ValueError("%autoreload takes 2 (on), 0 (off), or nothing (reload now)")
    magics.Reloading.reloader = reloader


def load_ext(rest: str, caller: magics.MagicContext) -> None:
    """Start watching modules for %autoreload; other extensions do not exist here."""
    if rest.strip() == "autoreload":
        magics.Reloading.reloader = magics.Reloading.reloader or Reloader(
            everywhere=True, automatic=False
        )
    else:
        print(
            f"\x1b[2m%load_ext {rest.strip()} does nothing here: extensions are a feature of IPython.\x1b[22m"
        )


reload_ext = load_ext


def aimport(rest: str, caller: magics.MagicContext) -> None:
    """Import modules, which are reloaded like all others when their file has changed."""
    for name in filter(None, rest.replace(",", " ").split()):
        if not name.startswith("-"):
            importlib.import_module(name)
            caller.namespace[name.partition(".")[0]] = sys.modules[name.partition(".")[0]]
    magics.Reloading.reloader = magics.Reloading.reloader or Reloader(everywhere=True)


def _own_modules(*, everywhere: bool) -> Iterator[tuple[str, ModuleType, str]]:
    try:
        project = "" if everywhere else os.path.join(os.path.realpath(os.getcwd()), "")
    except OSError:  # the working directory was deleted
        return
    for name, module in list(sys.modules.items()):
        path = (
            own_dict(module).get("__file__") if is_module(module) and name != "__main__" else None
        )
        if (
            type(path) is not str
            or not path.endswith(".py")
            or "site-packages" in path
            or path.startswith((_STANDARD, OUR_FOLDER))
        ):
            continue
        if os.path.realpath(path).startswith(project):
            yield name, module, path


def _changed(path: str) -> int:
    """Return a file's modification time in nanoseconds; 0 if it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Otherwise bytecode would count as current if the source has the same size and was changed
    # within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))
    for name, value in list(namespace.items()):
        for attribute in (name, *(other for other, old in before.items() if old is value)):
            if (
                before.get(attribute) is value
                and variable_kind(value) in ("function", "class")
                and attribute in after
            ):
                namespace[name] = after[attribute]
                break


PIP = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip like ``python -m pip``, but imports nothing from the working directory. (``-P`` needs
Python 3.11.)"""


def run(rest: str, caller: MagicContext) -> None:
    """Run a script as `__main__`, and copy its names into the namespace, even if it fails. A
    notebook's cells run in the namespace itself."""
    words = late_import("shlex").split(rest)
    if not words:
        raise ValueError("%run needs a file, as in %run script.py")
    path = os.path.abspath(os.path.expanduser(words[0]))
    if path.endswith(".ipynb"):
        _run_notebook(path, words[0], caller)
        return
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
        caller.namespace.update(
            (name, value)
            for name, value in own.items()
            if not (name.startswith("__") and name.endswith("__"))
        )


def _run_notebook(path: str, name: str, caller: MagicContext) -> None:
    """Run the code cells of a notebook without showing their values, like IPython."""
    lines, compiling = (
        late_import(f"{__package__}.magics"),
        late_import(f"{__package__}.compiling"),
    )
    with open(path, encoding="utf-8") as file:
        try:
            notebook = late_import("json").load(file)
            cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            sources = ["".join(cell["source"]) for cell in cells]
            about = notebook.get("metadata", {})
            language = (
                about.get("kernelspec", {}).get("language")
                or about.get("language_info", {}).get("name")
                or "python"
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{name} is not a notebook in Jupyter's format 4") from None
    if str(language).lower() not in ("python", "ipython"):
        raise ValueError(f"{name} is a notebook for {language}, not for Python")
    for number, source in enumerate(sources, 1):
        where = f"<{os.path.basename(path)}, code cell {number}>"
        compiling.compile_callable(lines.transform(source), where, *caller)()


def cd(rest: str, caller: MagicContext) -> None:
    """Change the working directory, by default to the home folder."""
    os.chdir(os.path.expanduser(rest.strip().strip("'\"") or "~"))
    print(os.getcwd())


def pip(rest: str, caller: MagicContext) -> None:
    """Run pip for this interpreter's environment, or uv if the environment has no pip."""
    subprocess, words = late_import("subprocess"), late_import("shlex").split(rest)
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
    # Read and printed here, because in the caller's own process the direct output of a child
    # process does not belong to the cell.
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
    if child.returncode:
        print(f"exit code {child.returncode}")


def debug(rest: str, caller: MagicContext) -> None:
    """Start Python's debugger where the last exception was raised; it reads commands like
    `input`."""
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    late_import(f"{__package__}.environment").post_mortem(traceback)


def ls(rest: str, caller: MagicContext) -> None:
    builtins.__dict__[SHELL](f"ls {rest}", caller.namespace)


def bash(rest: str, caller: MagicContext) -> None:
    if code := late_import("subprocess").call(
        ["bash" if late_import("shutil").which("bash") else "sh", "-c", rest]
    ):
        print(f"exit code {code}")


sh = bash


def writefile(rest: str, caller: MagicContext) -> None:
    """Write the lines after the first to the file that it names; -a appends them."""
    first, _, text = rest.partition("\n")
    words = late_import("shlex").split(first)
    paths = [word for word in words if word != "-a"]
    if len(paths) != 1 or not text.strip():
        raise ValueError(
            "%%writefile needs a file, as in %%writefile notes.txt, and the text below it"
        )
    path, adds = os.path.expanduser(paths[0]), "-a" in words
    existed = os.path.exists(path)
    with open(path, "a" if adds else "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    print(f"{'added to' if adds and existed else 'replaced' if existed else 'wrote'} {paths[0]}")


file = writefile


def pylab(rest: str, caller: MagicContext) -> None:
    """Import the names that IPython's pylab imports, without hiding Python's own functions."""
    code = "import numpy\nimport matplotlib\nfrom matplotlib import pylab, mlab, pyplot\nnp = numpy\nplt = pyplot\n"
    own: dict[str, Any] = {}
    exec(code, own)
    if "--no-import-all" not in rest.split():
        pylab_names = {
            name: value for name, value in vars(own["pylab"]).items() if not name.startswith("_")
        }
        own = {
            **{name: value for name, value in pylab_names.items() if name not in builtins.__dict__},
            **own,
        }
    caller.namespace.update((name, value) for name, value in own.items() if name != "__builtins__")


_COMMANDS = {"less": "cat", "more": "cat", "ll": "ls -l", "man": "man -P cat"}
"""Programs to run instead, because a pager would wait for keys."""


def _shell(name: str) -> Callable[[str, MagicContext], None]:
    def run(rest: str, caller: MagicContext) -> None:
        builtins.__dict__[SHELL](f"{_COMMANDS.get(name, name)} {rest}", caller.namespace)

    return run


globals().update(
    {name: _shell(name) for name in ("cat", "mkdir", "cp", "mv", "rm", "rmdir", *_COMMANDS)}
)


def system(rest: str, caller: MagicContext) -> object:
    """Return the lines printed by a command."""
    return builtins.__dict__[LINES](rest, caller.namespace)


sx = system


_NAME = "<%time>"


def time(source: str, caller: MagicContext) -> Any:
    """Run code, which may await, print its duration, and return the value of its last
    expression."""
    run = compile_callable(source, _NAME, *caller)
    wall, processor = perf_counter(), process_time()
    try:
        return run()
    finally:
        wall, processor = perf_counter() - wall, process_time() - processor
        print(f"took {duration(wall)} (CPU: {duration(processor)})")


def timeit(source: str, caller: MagicContext) -> None:
    """Run code many times and print the duration of one run."""
    loops, repeats, code = _options(source)
    timer = late_import("timeit").Timer(code, globals=caller.namespace)
    if not loops:
        loops, _ = timer.autorange()
    runs = [took / loops for took in timer.repeat(repeats, loops)]
    spread = statistics.pstdev(runs)
    print(
        f"{duration(statistics.fmean(runs))} ± {duration(spread)} per loop (of {repeats} runs with {loops:,} loops each; best {duration(min(runs))})"
    )


def prun(source: str, caller: MagicContext) -> Any:
    """Run code and print the time spent in each function, longest first."""
    words = source.lstrip().split(" ")
    rows, sort = 30, "tottime"
    while words[:1] and words[0] in ("-l", "-s") and len(words) > 1:
        rows, sort = (int(words[1]), sort) if words[0] == "-l" else (rows, words[1])
        del words[:2]
    run = compile_callable(" ".join(words), "<%prun>", *caller)
    profile = late_import("cProfile").Profile()
    try:
        return profile.runcall(run)
    finally:
        late_import("pstats").Stats(profile).strip_dirs().sort_stats(sort).print_stats(rows)


def _options(source: str) -> tuple[int, int, str]:
    """Parse the number of loops (0: choose automatically), of repeats, and the code."""
    numbers = {"-n": 0, "-r": 7}
    rest = source.lstrip()
    while rest[:2] in numbers:
        option, rest = rest[:2], rest[2:].lstrip()
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not digits or int(digits) < 1:
            raise ValueError(f"%timeit: {option} needs a number, as in {option} 10")
        numbers[option], rest = int(digits), rest[len(digits) :].lstrip(" \t")
    if not rest.strip():
        raise ValueError("%timeit needs code, as in %timeit sum(range(100))")
    return numbers["-n"], numbers["-r"], rest.strip("\n")


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
