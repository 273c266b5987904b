"""%run, %cd, %pip, %debug, %ls, %%bash and %%writefile."""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from typing import Any

from ..stdlib import importing_from, late_import
from . import SHELL
from .magics import Caller

PIP = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip as ``python -m pip`` does, but imports nothing from the working directory. (``-P`` needs
Python 3.11.)"""


def run(rest: str, caller: Caller) -> None:
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


def _run_notebook(path: str, name: str, caller: Caller) -> None:
    """Run the code cells of a notebook, without showing their values, as IPython does."""
    lines, compiling = (
        late_import(f"{__package__}.lines"),
        late_import(f"{__package__[: -len('.habits')]}.compiling"),
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
        compiling.compiled(lines.transform(source), where, *caller)()


def cd(rest: str, caller: Caller) -> None:
    """Change the working directory, by default to the home folder."""
    os.chdir(os.path.expanduser(rest.strip().strip("'\"") or "~"))
    print(os.getcwd())


def pip(rest: str, caller: Caller) -> None:
    """Run pip for this interpreter's environment, or uv if it has no pip."""
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
    # Read and printed here, because in the caller's own process the direct output of a child does
    # not belong to the cell.
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


def debug(rest: str, caller: Caller) -> None:
    """Start Python's debugger where the last exception was raised; it reads commands like
    `input`."""
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    late_import(f"{__package__[: -len('.habits')]}.console").post_mortem(traceback)


def ls(rest: str, caller: Caller) -> None:
    builtins.__dict__[SHELL](f"ls {rest}", caller.namespace)


def bash(rest: str, caller: Caller) -> None:
    if code := late_import("subprocess").call(
        ["bash" if late_import("shutil").which("bash") else "sh", "-c", rest]
    ):
        print(f"exit code {code}")


sh = bash


def writefile(rest: str, caller: Caller) -> None:
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


def pylab(rest: str, caller: Caller) -> None:
    """Import what IPython's pylab imports, without hiding Python's own functions."""
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
