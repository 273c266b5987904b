"""The names that our modules had in earlier versions, because saved pickles contain them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_PREFIX = __name__.rpartition(".")[0] + "."
"""What the full names of the worker's modules begin with."""

_PRESENT_NAMES = {
    "aliases": "magic.aliases",
    "answers": "rlm.answers",
    "attribution": "cells.attribution",
    "awaiting": "cells.awaiting",
    "capture": "cells.capture",
    "charts": "values.charts",
    "claude_sessions": "tools.claude_sessions",
    "column_facts": "describing.column_facts",
    "column_readers": "describing.column_reader",
    "compiling": "cells.compiling",
    "contexts": "rlm.contexts",
    "control": "link.host_functions",
    "description": "describing.description",
    "descriptors": "link.descriptors",
    "describing.column_readers": "describing.column_reader",
    "displays": "values.displays",
    "environment": "cells.environment",
    "executor": "cells.executor",
    "expansion": "magic.expansion",
    "figure_words": "values.figure_words",
    "files": "tools.files",
    "folder": "describing.folder",
    "frames": "link.frames",
    "habits.capturing": "magic.commands",
    "hints": "cells.hints",
    "holder": "link.holder",
    "ipython": "magic.ipython",
    "jobs": "cells.jobs",
    "keeping.pickling": "saving.pickling",
    "locked": "guard.locked",
    "link.control": "link.host_functions",
    "logged": "rlm.search",
    "lost_state": "guard.lost_state",
    "magic_commands": "magic.commands",
    "magic.session_commands": "magic.input_commands",
    "magics": "magic.syntax",
    "objects": "values.objects",
    "plain_pickle": "guard.plain_pickle",
    "pretty": "values.pretty",
    "private_use": "guard.private_use",
    "protected": "guard.protected",
    "sandbox.private_places": "guard.private_places",
    "sandbox.read_only": "guard.read_only",
    "sandbox.readable": "sandbox.value_text",
    "sandbox.refusals": "guard.refusals",
    "scripts": "magic.scripts",
    "search": "rlm.search",
    "search_log": "rlm.search_log",
    "servers": "tools.servers",
    "session_magics": "magic.input_commands",
    "side_effects": "guard.side_effects",
    "spans": "rlm.search_log",
    "spool": "link.spool",
    "station": "link.station",
    "station_loader": "link.station_loader",
    "table_description": "describing.table_description",
    "text_tools": "tools.text_tools",
    "timing": "magic.timing",
    "toolbox": "tools.toolbox",
    "tracebacks": "cells.tracebacks",
    "undo.checkpoint": "undo.reduction",
    "undo.reducing": "undo.reduction",
    "variables": "values.variables",
}
"""Modules of the worker, by the names that they had."""

_FORMER_PACKAGES = frozenset(name.rpartition(".")[0] for name in _PRESENT_NAMES if "." in name)
"""Packages in which modules of the worker were. Some of them still exist."""


def present_name(module: str) -> str:
    """Return the present name of a module. Other names than former ones of ours are returned as they
    are.

    Args:
        module: a full name, such as ``mahtab_worker.spans``.
    """
    former_name = _own_part(module)
    if former_name not in _PRESENT_NAMES:
        return module
    return _PREFIX + _PRESENT_NAMES[former_name]


def _own_part(module: str) -> str:
    """Return a module's name within the worker; empty if it is not a module of ours."""
    if module.startswith(_PREFIX):
        return module[len(_PREFIX) :]
    return ""


class FormerNameFinder:
    """Finds modules of ours by their former names, so that `pickle.load` in a cell or script finds
    the classes of a pickle that an earlier version wrote."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec for a former name of a module or a package; None for all others."""
        own_name = _own_part(name)
        is_package = own_name in _FORMER_PACKAGES
        if own_name not in _PRESENT_NAMES and not is_package:
            return None
        return ModuleSpec(name, self, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system to create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the names of the present module into the former one. A former package stays empty."""
        # Not at the top: a program that loads no old pickle does not need it.
        from .stdlib import own_module

        own_name = _own_part(module.__name__)
        if own_name not in _PRESENT_NAMES:
            return
        present_module = own_module(_PRESENT_NAMES[own_name])
        for name, value in vars(present_module).items():
            if not name.startswith("__"):
                setattr(module, name, value)


def install_finder() -> None:
    """Let imports find modules by their former names, if no other finder finds them. A second call
    does nothing."""
    if not any(type(finder) is FormerNameFinder for finder in sys.meta_path):
        sys.meta_path.append(FormerNameFinder())
