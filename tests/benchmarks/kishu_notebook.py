"""Cells in IPython with Kishu, or without it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import time
import warnings
from typing import Any


def main(folder: str, watched: bool) -> None:
    """Run the cases, in which each says: setup, change, check."""
    warnings.simplefilter("ignore")
    path = os.path.join(folder, "notebook.ipynb")
    os.environ.update(HOME=folder, TEST_NOTEBOOK_PATH=path, ENV_KISHU_TEST_MODE="1")
    cases = json.load(sys.stdin)
    found = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        notebooks: Any = importlib.import_module("nbformat")
        notebooks.write(notebooks.v4.new_notebook(), path)
        shell = importlib.import_module("IPython.core.interactiveshell").InteractiveShell.instance()
        if watched:
            shell.run_cell(f"from kishu import init_kishu\ninit_kishu({path!r})")
        kishu = shell.user_ns.get("_kishu")
        for setup, change, check in cases:
            shell.run_cell(setup)
            before = kishu._kishu_graph.list_history()[0].commit_id if kishu else ""
            start = time.perf_counter()
            shell.run_cell(change)
            ran = time.perf_counter() - start
            start, error = time.perf_counter(), ""
            try:
                if kishu:
                    kishu.checkout(before, skip_notebook=True)
            except Exception as failure:  # whatever Kishu cannot restore
                error = f"{type(failure).__name__}: {failure}"
            undone = time.perf_counter() - start
            good = shell.run_cell(check).result
            found.append(
                {
                    "ran": ran * 1000,
                    "undone": undone * 1000,
                    "good": bool(good),
                    "error": error[:200],
                }
            )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "on")
