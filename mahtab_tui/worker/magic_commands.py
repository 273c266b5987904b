"""The ``%magic`` commands."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import os
import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib.util import cache_from_source
from time import perf_counter, process_time
from types import ModuleType
from typing import Any, Callable, NamedTuple

from . import environment, session_magics, toolbox
from .compiling import compile_callable
from .displays import LARGEST_TEXT, Display, capture_displays, show
from .magics import SUMMARIES, MagicContext, Reloading, transform
from .objects import is_module, own_dict
from .stdlib import importing_from, late_import
from .toolbox import report_exit
from .tracebacks import OUR_FOLDER
from .variables import HIDDEN, describe_variable, looks_secret, variable_kind

_CAPTURE_OPTIONS = frozenset({"--no-stdout", "--no-stderr", "--no-display"})

_SECRET_WORDS = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""Parts of names of secret environment variables, besides those that `looks_secret` knows."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")

_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")

PIP = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip, but not a `pip.py` of the working directory."""

_TIMEIT_OPTION = re.compile(r"[ \t]*-(?:([nrp])[ \t]*(\d+)|([oqtc]+))(?:[ \t]+|$)")

_INSTEAD = {
    "autosave": "the session is saved continuously",
    "colors": "the theme sets the colours (F10)",
    "config": "this is not IPython",
    "gui": "figures are shown automatically",
    "pdb": "%debug after an error inspects the place where it was raised",
    "precision": "numbers are shown as Python formats them",
    "store": "variables are saved with the session, and `mahtab-tui --continue` brings them back",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
"""Why magics of IPython have no effect here."""


def _words(text: str) -> list[str]:
    words: list[str] = late_import("shlex").split(text)
    return words


class CapturedOutput:
    """What a cell printed and displayed."""

    def __init__(self, stdout: str, stderr: str, outputs: list[Display]) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.outputs = outputs

    def __str__(self) -> str:
        return self.stdout

    def show(self) -> None:
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            show(output)

    __call__ = show


def _capture(rest: str, caller: MagicContext) -> None:
    first, _, code = rest.partition("\n")
    words = _words(first)
    options = {word for word in words if word.startswith("-")}
    names = [word for word in words if not word.startswith("-")]
    if len(names) > 1 or not all(map(str.isidentifier, names)):
        raise ValueError("%%capture takes at most one name, as in %%capture printed")
    if unknown := sorted(options - _CAPTURE_OPTIONS):
        raise ValueError(
            f"%%capture does not take {unknown[0]}, only {', '.join(sorted(_CAPTURE_OPTIONS))}"
        )

    run = compile_callable(transform(code), "<%%capture>", *caller)
    stdout = io.StringIO()
    stderr = io.StringIO()
    outputs: list[Display] = []
    with contextlib.ExitStack() as redirections:
        if "--no-stdout" not in options:
            redirections.enter_context(contextlib.redirect_stdout(stdout))
        if "--no-stderr" not in options:
            redirections.enter_context(contextlib.redirect_stderr(stderr))
        if "--no-display" not in options:
            redirections.enter_context(capture_displays(outputs))
        try:
            run()
        finally:
            captured = CapturedOutput(stdout.getvalue(), stderr.getvalue(), outputs)
            caller.namespace.update(dict.fromkeys(names, captured))


def _show_as(mime: str, before: str, after: str, rest: str, caller: MagicContext) -> None:
    text = f"{before}{rest.partition(chr(10))[2].strip()}{after}\n"
    show(Display(mime if len(text) <= LARGEST_TEXT else "", text, text))


class _ScriptArguments(NamedTuple):
    """The first line of `%%bash` and similar magics."""

    words: list[str]
    """The arguments of the program."""
    stdout_name: str
    """The variable that gets the standard output; empty to show the output."""
    stderr_name: str
    """The same for the standard error output."""


def _parse_script_arguments(magic: str, line: str) -> _ScriptArguments:
    """Separate the program's arguments from the magic's own options. magic: for error messages."""
    words: list[str] = []
    names = {"--out": "", "--err": ""}
    remaining_words = iter(_words(line))
    for word in remaining_words:
        option, sign, value = word.partition("=")
        if option in names:
            names[option] = value if sign else next(remaining_words, "")
            if not names[option].isidentifier():
                raise ValueError(
                    f"{option} needs the name of a variable, as in {magic} {option} text"
                )
        elif word in ("--bg", "--proc"):
            raise ValueError(
                f"{magic} does not take {word}: `!command &` runs it in the background"
            )
        elif word not in ("--no-raise-error", "--raise-error"):
            words.append(word)
    return _ScriptArguments(words, names["--out"], names["--err"])


def _run_program(program: str, rest: str, caller: MagicContext) -> None:
    first, _, code = rest.partition("\n")
    script = _parse_script_arguments(f"%%{program or 'script'}", first)
    words = [*_words(program), *script.words]
    if not words:
        raise ValueError("%%script needs a program, as in %%script perl")
    _run_script(words, code, script, caller)


def _bash(rest: str, caller: MagicContext) -> None:
    first, _, code = rest.partition("\n")
    shell = "bash" if late_import("shutil").which("bash") else "sh"
    script = _parse_script_arguments("%%bash", first)
    options = script.words
    arguments: list[str] = []
    if "-s" in options:
        arguments = options[options.index("-s") + 1 :]
        options = options[: options.index("-s")]
    # The script is not the shell's input: programs that it runs would read the rest of it.
    _run_script([shell, *options, "-c", code, shell, *arguments], "", script, caller)


def _run_script(
    words: list[str], stdin: str, script: _ScriptArguments, caller: MagicContext
) -> None:
    subprocess = late_import("subprocess")
    try:
        process = subprocess.run(
            words,
            input=stdin.encode(),
            stdout=subprocess.PIPE if script.stdout_name else None,
            stderr=subprocess.PIPE if script.stderr_name else None,
            check=False,
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no program {words[0]}.") from None
    if script.stdout_name:
        caller.namespace[script.stdout_name] = process.stdout.decode("utf-8", "replace")
    if script.stderr_name:
        caller.namespace[script.stderr_name] = process.stderr.decode("utf-8", "replace")
    report_exit(process.returncode)


def _format_variable(name: str, value: str) -> str:
    """Return an environment variable as ``NAME=value``, without secrets."""
    has_secret_word = not _SECRET_WORDS.isdisjoint(name.lower().split("_"))
    if name != "PWD" and (looks_secret(name) or has_secret_word):
        return f"{name}=<hidden>"
    return f"{name}={_LOGIN.sub('<hidden>@', value)}"


def _env(rest: str, caller: MagicContext) -> str | None:
    name, sign, value = rest.strip().partition("=")
    if not sign:
        name, sign, value = rest.strip().partition(" ")
    if sign:
        os.environ[name.strip()] = value.strip()
        print(f"env: {_format_variable(name.strip(), value.strip())}")
        return None
    if name:
        if name not in os.environ:
            raise KeyError(f"the environment has no {name}; to set it: %env {name}=VALUE")
        return os.environ[name]
    for name, value in sorted(os.environ.items()):
        print(_format_variable(name, value))
    return None


def _list_variables(rest: str, caller: MagicContext) -> list[dict[str, Any]]:
    """Describe the variables; only those of some types if `rest` names types."""
    types = rest.split()
    variables = [
        describe_variable(name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN and name[:1] != "_"
    ]
    return [
        variable
        for variable in variables
        if variable["kind"] == "data" and (not types or variable["type"] in types)
    ]


def _who(rest: str, caller: MagicContext) -> None:
    print("  ".join(_who_ls(rest, caller)) or "There are no variables.")


def _who_ls(rest: str, caller: MagicContext) -> list[str]:
    return sorted(variable["name"] for variable in _list_variables(rest, caller))


def _whos(rest: str, caller: MagicContext) -> None:
    variables = _list_variables(rest, caller)
    if not variables:
        print("There are no variables.")
        return
    name_width = max(len(variable["name"]) for variable in variables)
    type_width = max(len(variable["type"]) for variable in variables)
    for variable in variables:
        columns = (
            variable["name"].ljust(name_width),
            variable["type"].ljust(type_width),
            variable["summary"],
        )
        print("  ".join(columns).rstrip())


def _lsmagic(rest: str, caller: MagicContext) -> None:
    print("\n".join(SUMMARIES.values()))


def _history(rest: str, caller: MagicContext) -> None:
    for number, source in enumerate(builtins.__dict__["In"]):
        if source:
            print(f"{number}: {source}" if "-n" in rest else source)


def _pwd(rest: str, caller: MagicContext) -> str:
    return os.getcwd()


def _cd(rest: str, caller: MagicContext) -> None:
    target = rest.removeprefix("-q ").strip().strip("'\"") or "~"
    visited: list[str] = builtins.__dict__["_dh"]
    if re.fullmatch(r"-\d*", target):
        # `-` is the folder before this one, `-0` the first one.
        index = int(target[1:] or -2)
        try:
            target = visited[index]
        except IndexError:
            raise LookupError(
                f"%cd {target}: there is no such earlier folder. %dhist lists them."
            ) from None
    os.chdir(os.path.expanduser(target))
    visited.append(os.getcwd())
    if not rest.startswith("-q "):
        print(visited[-1])


def _dhist(rest: str, caller: MagicContext) -> None:
    for number, folder in enumerate(builtins.__dict__["_dh"]):
        print(f"{number}: {folder}")


def _matplotlib(rest: str, caller: MagicContext) -> None:
    """Accept the backend of notebooks silently, because figures are shown in its way anyway."""
    if rest.strip() not in ("", "inline"):
        _explain("matplotlib", _INSTEAD["gui"], rest, caller)


def _explain(name: str, reason: str, rest: str, caller: MagicContext) -> None:
    """Say why a magic has no effect."""
    line = f"{name} {rest.partition(chr(10))[0]}".strip()
    print(f"\x1b[2m%{line} does nothing here: {reason}.\x1b[22m")


def _pylab(rest: str, caller: MagicContext) -> None:
    names: dict[str, Any] = {}
    exec("from matplotlib.pylab import *\nimport numpy as np, matplotlib.pyplot as plt", names)
    for name, value in names.items():
        # pylab has functions such as `sum` and `max`, which would replace Python's.
        if name != "__builtins__" and name not in builtins.__dict__:
            caller.namespace[name] = value


class Reloader:
    """Reloads modules of the user whose files have changed."""

    def __init__(self, *, automatic: bool = True) -> None:
        self._modified_ns: dict[str, int] = {}
        """By a module's name: when its file was modified, in nanoseconds."""
        self.automatic = automatic

    def note(self) -> None:
        """Remember the modules that have been imported since the last call."""
        for name, _, path in self._modules():
            if name not in self._modified_ns:
                self._modified_ns[name] = _modification_ns(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        """Reload the remembered modules that have changed."""
        for name, module, path in self._modules():
            modified_ns = _modification_ns(path)
            if name in self._modified_ns and modified_ns not in (0, self._modified_ns[name]):
                self._modified_ns[name] = modified_ns
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # raised by the module's code
                    reason = f"{type(error).__name__}: {error}"
                    print(f"{name} has changed, but cannot be reloaded: {reason}")
                else:
                    print(f"{name} has changed and was reloaded")

    def _modules(self) -> Iterator[tuple[str, ModuleType, str]]:
        for name, module in list(sys.modules.items()):
            if name == "__main__" or not is_module(module):
                continue
            path = own_dict(module).get("__file__")
            if type(path) is not str or path.startswith((_STANDARD_LIBRARY, OUR_FOLDER)):
                continue
            if path.endswith(".py") and "site-packages" not in path:
                yield name, module, path


def _modification_ns(path: str) -> int:
    """Return when a file was modified, in nanoseconds; 0 if there is no such file."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Otherwise bytecode would count as current after a change within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))

    # Names that a cell has imported from the module get its new functions and classes.
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
    if Reloading.reloader is None:
        Reloading.reloader = Reloader(automatic=False)
    reloader = Reloading.reloader
    if not mode:
        reloader.reload(caller.namespace)
    elif mode in ("0", "1", "2", "3"):
        reloader.automatic = mode != "0"
    else:
        raise ValueError("%autoreload takes 2 (on), 0 (off), or nothing (reload now)")


def _load_ext(rest: str, caller: MagicContext) -> None:
    if rest.strip() != "autoreload":
        _explain("load_ext", _INSTEAD["unload_ext"], rest, caller)
    elif Reloading.reloader is None:
        Reloading.reloader = Reloader(automatic=False)


def _aimport(rest: str, caller: MagicContext) -> None:
    for name in rest.replace(",", " ").split():
        package = name.lstrip("-").partition(".")[0]
        importlib.import_module(name.lstrip("-"))
        caller.namespace[package] = sys.modules[package]
    if Reloading.reloader is None:
        Reloading.reloader = Reloader()


def _pip(rest: str, caller: MagicContext) -> None:
    subprocess = late_import("subprocess")
    words = _words(rest)
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
    names: dict[str, Any] = {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__}
    old_argv = sys.argv
    old_path = list(sys.path)
    sys.argv = [path, *words[1:]]
    sys.path.insert(0, os.path.dirname(path))
    try:
        exec(code, names)
    except SystemExit as error:
        if error.code not in (None, 0):
            print(f"{words[0]} ended with exit code {error.code}")
    finally:
        sys.argv = old_argv
        sys.path[:] = old_path
        for name, value in names.items():
            if not name.startswith("__"):
                caller.namespace[name] = value


def _run_notebook(path: str, name: str, caller: MagicContext) -> None:
    with open(path, encoding="utf-8") as file:
        try:
            cells = late_import("json").load(file)["cells"]
            sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{name} is not a notebook in Jupyter's format 4") from None
    for number, source in enumerate(sources, 1):
        filename = f"<{os.path.basename(path)}, code cell {number}>"
        compile_callable(transform(source), filename, *caller)()


def _debug(rest: str, caller: MagicContext) -> None:
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    environment.post_mortem(traceback)


def _run_command(command: str, rest: str, caller: MagicContext) -> None:
    toolbox.run_command(f"{command} {rest}")


def _system(rest: str, caller: MagicContext) -> list[str]:
    return toolbox.read_command(rest.strip())


def _writefile(rest: str, caller: MagicContext) -> None:
    first, _, text = rest.partition("\n")
    words = _words(first)
    paths = [word for word in words if word != "-a"]
    if len(paths) != 1 or not text.strip():
        raise ValueError(
            "%%writefile needs a file, as in %%writefile notes.txt, and the text below it"
        )
    path = os.path.expanduser(paths[0])
    appends = "-a" in words
    action = "wrote"
    if os.path.exists(path):
        action = "added to" if appends else "replaced"
    with open(path, "a" if appends else "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    print(f"{action} {paths[0]}")


def _time(source: str, caller: MagicContext) -> Any:
    run = compile_callable(transform(source), "<%time>", *caller)
    wall_start = perf_counter()
    cpu_start = process_time()
    try:
        return run()
    finally:
        wall_s = perf_counter() - wall_start
        cpu_s = process_time() - cpu_start
        print(f"took {duration(wall_s)} (CPU: {duration(cpu_s)})")


class TimeitResult:
    """What `%timeit -o` returns. Durations are in seconds, for one loop."""

    def __init__(self, loops: int, all_runs: list[float]) -> None:
        self.loops = loops
        self.repeat = len(all_runs)
        self.all_runs = all_runs
        """Durations of all loops of a run."""
        self.timings = [duration / loops for duration in all_runs]
        self.best = min(self.timings)
        self.worst = max(self.timings)

    @property
    def average(self) -> float:
        return statistics.fmean(self.timings)

    @property
    def stdev(self) -> float:
        return statistics.pstdev(self.timings)

    def __str__(self) -> str:
        return f"{duration(self.average)} ± {duration(self.stdev)} per loop (of {self.repeat} runs with {self.loops:,} loops each; best {duration(self.best)})"

    def __repr__(self) -> str:
        return f"<TimeitResult: {self}>"


class _TimeitOptions(NamedTuple):
    loops: int
    """0 to choose a good number."""
    repeats: int
    letters: str
    """The letters of the options without a number: o returns the result, q prints nothing."""


def _split_timeit(line: str) -> tuple[_TimeitOptions, str]:
    """Separate the options from the code after them."""
    numbers = {"n": 0, "r": 7}
    letters = ""
    while option := _TIMEIT_OPTION.match(line):
        if option[1]:
            numbers[option[1]] = int(option[2])
        letters += option[3] or ""
        line = line[option.end() :]
    return _TimeitOptions(numbers["n"], numbers["r"] or 1, letters), line


def _timeit(line: str, caller: MagicContext) -> TimeitResult | None:
    options, code = _split_timeit(line)
    return _time_loops(options, "pass", code, caller)


def _timeit_cell(source: str, caller: MagicContext) -> TimeitResult | None:
    """Time the lines below the first one, which prepares each run and is not timed."""
    first, _, body = source.partition("\n")
    options, setup = _split_timeit(first)
    return _time_loops(options, setup or "pass", body, caller)


def _time_loops(
    options: _TimeitOptions, setup: str, code: str, caller: MagicContext
) -> TimeitResult | None:
    if not code.strip():
        raise ValueError("%timeit needs code, as in %timeit -n LOOPS -r REPEATS sum(range(100))")
    timer = late_import("timeit").Timer(code.strip("\n"), setup.strip(), globals=caller.namespace)
    loops = options.loops or timer.autorange()[0]
    result = TimeitResult(loops, timer.repeat(options.repeats, loops))
    if "q" not in options.letters:
        print(result)
    return result if "o" in options.letters else None


def _prun(source: str, caller: MagicContext) -> Any:
    run = compile_callable(transform(source), "<%prun>", *caller)
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

_LINE_AND_CELL_COMMANDS: dict[str, Command] = {"time": _time, "prun": _prun}

_FILE_COMMANDS: dict[str, Command] = {
    **{name: partial(_run_command, name) for name in "cat cp ls mkdir mv rm rmdir".split()},
    # A pager would wait for keys.
    "less": partial(_run_command, "cat"),
    "ll": partial(_run_command, "ls -l"),
    "man": partial(_run_command, "man -P cat"),
    "more": partial(_run_command, "cat"),
}

TAKES_CODE = frozenset({*_LINE_AND_CELL_COMMANDS, *_INSTEAD, "timeit", "debug"})
"""Magics whose arguments stay as they are, because they are code or have no effect."""
SHELL_COMMANDS = frozenset({*_FILE_COMMANDS, "sx", "system"})
"""Magics whose arguments are read by a shell."""

LINE_COMMANDS: dict[str, Command] = {
    **_LINE_AND_CELL_COMMANDS,
    "timeit": _timeit,
    **{name: partial(_explain, name, reason) for name, reason in _INSTEAD.items()},
    **_FILE_COMMANDS,
    **{
        function.__name__[1:]: function
        for function in (
            *(_aimport, _autoreload, _cd, _debug, _dhist, _env, _history, _load_ext, _lsmagic),
            *(_matplotlib, _pip),
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
    **_LINE_AND_CELL_COMMANDS,
    **dict.fromkeys(("sx", "system"), _system),
    "timeit": _timeit_cell,
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
