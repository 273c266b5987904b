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
from functools import partial
from time import perf_counter, process_time
from types import ModuleType
from typing import Any, Callable

from . import environment, session_magics
from .compiling import compile_callable
from .displays import LARGEST_TEXT, Display, show
from .magics import LINES, SHELL, SUMMARIES, MagicContext, Reloading, transform
from .objects import is_module, own_dict
from .stdlib import importing_from, late_import
from .toolbox import report_exit
from .tracebacks import OUR_FOLDER
from .variables import HIDDEN, describe_variable, looks_secret, variable_kind


def _words(text: str) -> list[str]:
    words: list[str] = late_import("shlex").split(text)
    return words


class CapturedOutput:
    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return self.stdout

    def show(self) -> None:
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)


def _capture(rest: str, caller: MagicContext) -> None:
    first, _, code = rest.partition("\n")
    names = [word for word in _words(first) if not word.startswith("-")]
    if len(names) > 1 or not all(map(str.isidentifier, names)):
        raise ValueError("%%capture takes at most one name, as in %%capture printed")
    run = compile_callable(code, "<%%capture>", *caller)
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            run()
        finally:
            captured = CapturedOutput(stdout.getvalue(), stderr.getvalue())
            caller.namespace.update(dict.fromkeys(names, captured))


def _show_as(mime: str, before: str, after: str, rest: str, caller: MagicContext) -> None:
    text = f"{before}{rest.partition(chr(10))[2].strip()}{after}\n"
    show(Display(mime if len(text) <= LARGEST_TEXT else "", text, text))


def _run_program(program: str, rest: str, caller: MagicContext) -> None:
    first, _, code = rest.partition("\n")
    words = _words(f"{program} {first}")
    if not words:
        raise ValueError("%%script needs a program, as in %%script perl")
    try:
        ended = late_import("subprocess").run(words, input=code.encode(), check=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no program {words[0]}.") from None
    report_exit(ended.returncode)


_SECRET = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""More words in names of secret environment variables."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


def _show_setting(name: str, value: str) -> str:
    secret = looks_secret(name) or not _SECRET.isdisjoint(name.lower().split("_"))
    hidden = secret and name != "PWD"
    return f"{name}={'<hidden>' if hidden else _LOGIN.sub('<hidden>@', value)}"


def _env(rest: str, caller: MagicContext) -> str | None:
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


def _list_variables(rest: str, caller: MagicContext) -> list[dict[str, Any]]:
    """List the variables; those of some types if `rest` names them."""
    types = rest.split()
    listed = [
        describe_variable(name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN and name[:1] != "_"
    ]
    return [
        variable
        for variable in listed
        if variable["kind"] == "data" and (not types or variable["type"] in types)
    ]


def _who(rest: str, caller: MagicContext) -> None:
    print("  ".join(_who_ls(rest, caller)) or "There are no variables.")


def _who_ls(rest: str, caller: MagicContext) -> list[str]:
    return sorted(each["name"] for each in _list_variables(rest, caller))


def _whos(rest: str, caller: MagicContext) -> None:
    rows = [(each["name"], each["type"], each["summary"]) for each in _list_variables(rest, caller)]
    names, kinds = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    lines = (f"{name:<{names}}  {kind:<{kinds}}  {about}".rstrip() for name, kind, about in rows)
    print("\n".join(lines) if rows else "There are no variables.")


def _lsmagic(rest: str, caller: MagicContext) -> None:
    print("\n".join(SUMMARIES.values()))


def _history(rest: str, caller: MagicContext) -> None:
    for number, source in enumerate(builtins.__dict__["In"]):
        if source:
            print(f"{number}: {source}" if "-n" in rest else source)


def _pwd(rest: str, caller: MagicContext) -> str:
    return os.getcwd()


def _cd(rest: str, caller: MagicContext) -> None:
    os.chdir(os.path.expanduser(rest.strip().strip("'\"") or "~"))
    print(os.getcwd())


_INSTEAD = {
    "autosave": "the session is saved continuously",
    "colors": "the theme sets the colours (F10)",
    "config": "this is not IPython",
    **dict.fromkeys(("gui", "matplotlib"), "figures are shown automatically"),
    "pdb": "%debug after an error inspects the place where it was raised",
    "precision": "numbers are shown as Python formats them",
    "store": "variables are saved with the session, and `mahtab-tui --continue` brings them back",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}


def _explain(name: str, why: str, rest: str, caller: MagicContext) -> None:
    line = f"{name} {rest.partition(chr(10))[0]}".strip()
    print(f"\x1b[2m%{line} does nothing here: {why}.\x1b[22m")


def _pylab(rest: str, caller: MagicContext) -> None:
    own: dict[str, Any] = {}
    exec("from matplotlib.pylab import *\nimport numpy as np, matplotlib.pyplot as plt", own)
    hidden = {"__builtins__", *builtins.__dict__}
    caller.namespace.update({name: value for name, value in own.items() if name not in hidden})


_STANDARD = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    def __init__(self, *, automatic: bool = True) -> None:
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
                    why = f"{type(error).__name__}: {error}"
                    print(f"{name} has changed, but cannot be reloaded: {why}")
                else:
                    print(f"{name} has changed and was reloaded")

    def _modules(self) -> Iterator[tuple[str, ModuleType, str]]:
        for name, module in list(sys.modules.items()):
            if name == "__main__" or not is_module(module):
                continue
            path = own_dict(module).get("__file__")
            if type(path) is not str or path.startswith((_STANDARD, OUR_FOLDER)):
                continue
            if path.endswith(".py") and "site-packages" not in path:
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
    if not mode:
        reloader.reload(caller.namespace)
    elif mode in ("0", "1", "2", "3"):
        reloader.automatic = mode != "0"
    else:
        raise ValueError("%autoreload takes 2 (on), 0 (off), or nothing (reload now)")


def _load_ext(rest: str, caller: MagicContext) -> None:
    if rest.strip() == "autoreload":
        Reloading.reloader = Reloading.reloader or Reloader(automatic=False)
    else:
        _explain("load_ext", _INSTEAD["unload_ext"], rest, caller)


def _aimport(rest: str, caller: MagicContext) -> None:
    for name in rest.replace(",", " ").split():
        package = name.lstrip("-").partition(".")[0]
        importlib.import_module(name.lstrip("-"))
        caller.namespace[package] = sys.modules[package]
    Reloading.reloader = Reloading.reloader or Reloader()


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
        made = {name: value for name, value in own.items() if not name.startswith("__")}
        caller.namespace.update(made)


def _run_notebook(path: str, name: str, caller: MagicContext) -> None:
    with open(path, encoding="utf-8") as file:
        try:
            cells = late_import("json").load(file)["cells"]
            sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{name} is not a notebook in Jupyter's format 4") from None
    for number, source in enumerate(sources, 1):
        where = f"<{os.path.basename(path)}, code cell {number}>"
        compile_callable(transform(source), where, *caller)()


def _debug(rest: str, caller: MagicContext) -> None:
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    environment.post_mortem(traceback)


def _bash(rest: str, caller: MagicContext) -> None:
    shell = "bash" if late_import("shutil").which("bash") else "sh"
    report_exit(late_import("subprocess").call([shell, "-c", rest]))


def _run_command(command: str, rest: str, caller: MagicContext) -> None:
    builtins.__dict__[SHELL](f"{command} {rest}", caller.namespace)


def _system(rest: str, caller: MagicContext) -> object:
    return builtins.__dict__[LINES](rest, caller.namespace)


def _writefile(rest: str, caller: MagicContext) -> None:
    first, _, text = rest.partition("\n")
    words = _words(first)
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


def _prun(source: str, caller: MagicContext) -> Any:
    run = compile_callable(source, "<%prun>", *caller)
    profile = late_import("cProfile").Profile()
    try:
        return profile.runcall(run)
    finally:
        late_import("pstats").Stats(profile).strip_dirs().sort_stats("tottime").print_stats(30)


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


Command = Callable[[str, MagicContext], Any]

_ANY: dict[str, Command] = {"time": _time, "timeit": _timeit, "prun": _prun}

LINE_COMMANDS: dict[str, Command] = {
    **_ANY,
    **{name: partial(_explain, name, why) for name, why in _INSTEAD.items()},
    **{name: partial(_run_command, name) for name in "cat cp ls mkdir mv rm rmdir".split()},
    # A pager would wait for keys.
    "less": partial(_run_command, "cat"),
    "ll": partial(_run_command, "ls -l"),
    "man": partial(_run_command, "man -P cat"),
    "more": partial(_run_command, "cat"),
    **{
        function.__name__[1:]: function
        for function in (
            *(_aimport, _autoreload, _cd, _debug, _env, _history, _load_ext, _lsmagic, _pip),
            *(_pwd, _pylab, _run, _system, _who, _who_ls, _whos),
        )
    },
    "hist": _history,
    "reload_ext": _load_ext,
    "edit": session_magics.edit_file,
    "reset": session_magics.reset_names,
    "save": session_magics.save_inputs,
    "set_env": _env,
    "sx": _system,
}

CELL_COMMANDS: dict[str, Command] = {
    **_ANY,
    **{name: partial(_run_program, name) for name in ("perl", "ruby")},
    **{
        name: partial(_explain, f"%{name}", "a terminal cannot run or draw it")
        for name in ("javascript", "js", "svg", "SVG")
    },
    **dict.fromkeys(("html", "HTML"), partial(_show_as, "text/html", "", "")),
    **dict.fromkeys(("python", "python3"), partial(_run_program, f"'{sys.executable}' -")),
    "bash": _bash,
    "capture": _capture,
    "file": _writefile,
    "latex": partial(_show_as, "text/markdown", "```latex\n", "\n```"),
    "markdown": partial(_show_as, "text/markdown", "", ""),
    "script": partial(_run_program, ""),
    "sh": _bash,
    "writefile": _writefile,
}
