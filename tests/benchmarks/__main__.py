"""Prints figures with their goals and baselines: ``python -m tests.benchmarks [NAME ...]``.

``answers``, ``steps``, ``long``, ``searches``, ``first_search`` and ``floods`` are programs of
their own, with ``--help``.
"""

from __future__ import annotations

import importlib
import os
import sys

from tests.benchmarks.table import print_table

GROUPS = (
    "kernel undo saving detached jupyter remote inspector transcript screen sandbox recursion mcp "
    "knowledge sessions"
).split()
PROGRAMS = {
    "answers": "answers.run",
    "steps": "steps.run",
    "long": "long.run",
    "searches": "searches",
    "first_search": "first_search",
    "floods": "floods",
}


def main() -> None:
    os.environ["MAHTAB_KEEP_KERNEL"] = "0"  # no kernel outlives its program
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a start must not compile the package again
    chosen_names = sys.argv[1:] or GROUPS
    if program := PROGRAMS.get(chosen_names[0]):
        importlib.import_module(f"tests.benchmarks.{program}").main(sys.argv[2:])
        return
    if unknown := [name for name in chosen_names if name not in GROUPS]:
        valid_names = ", ".join([*GROUPS, *PROGRAMS])
        raise SystemExit(f"There is no group {unknown[0]!r}. Groups: {valid_names}.")
    groups = [importlib.import_module(f"tests.benchmarks.{name}") for name in chosen_names]
    print_table(row for group in groups for row in group.rows())


main()
