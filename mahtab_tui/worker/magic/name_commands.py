"""Magic commands on the names of the namespace: `%psearch`, `%xdel`, `%reset` and `%reset_selective`.

`listings` has those that list the variables.
"""

from __future__ import annotations

import builtins
import re

from ..stdlib import late_import
from ..values.variables import HIDDEN_NAMES
from .expansion import Names
from .state import MagicContext


def search_names(rest: str, caller: MagicContext) -> None:
    """Print the names that match a pattern: ``%psearch pd.*csv*``. Those that begin with an
    underscore match only a pattern that does."""
    words = rest.strip().rstrip("?").split()
    if not words:
        raise ValueError(
            "%psearch needs a pattern, as in %psearch pd.*csv*, which pd.*csv*? is too"
        )
    pattern = words[0]
    path, dot, last = pattern.rpartition(".")
    if "*" in path or "?" in path:
        raise ValueError(f"a * may only be in the last name of {pattern}")

    if dot:
        names = set(dir(Names(caller.namespace, {}).evaluate(path)))
    else:
        names = {*caller.namespace, *builtins.__dict__} - HIDDEN_NAMES
    matcher = re.compile(late_import("fnmatch").translate(last))
    matches = sorted(
        f"{path}{dot}{name}"
        for name in names
        if matcher.match(name) and name.startswith("_") <= last.startswith("_")
    )
    print("\n".join(matches) or f"No name matches {pattern}.")


def delete_name(rest: str, caller: MagicContext) -> None:
    """Delete a name: ``%xdel NAME``."""
    name = rest.removeprefix("-n ").strip()
    if name not in caller.namespace:
        raise NameError(f"name {name!r} is not defined")
    del caller.namespace[name]


def reset_matching_names(rest: str, caller: MagicContext) -> None:
    """Delete the names that contain a pattern: ``%reset_selective [-f] PATTERN``."""
    words = rest.split()
    pattern = None
    if words and words[-1] != "-f":
        pattern = re.compile(words[-1])
    if pattern is None or words[:-1] not in ([], ["-f"]):
        raise ValueError("%reset_selective needs a regular expression, as in %reset_selective ^tmp")
    names = [name for name in _own_names(caller) if pattern.search(name)]
    if not names:
        print(f"No name matches {words[-1]}.")
    elif "-f" in words or _confirm(f"Delete {', '.join(names)}? (y/[n]) "):
        for name in names:
            caller.namespace.pop(name, None)


def reset_names(text: str, caller: MagicContext) -> None:
    """Delete all names of the namespace, after a question unless the argument is ``-f``."""
    words = text.split()
    if words not in ([], ["-f"]):
        raise ValueError("%reset takes -f (do not ask) or nothing; F9 starts a new kernel")
    names = _own_names(caller)
    names_words = "the only name" if len(names) == 1 else f"all {len(names):,} names"
    if not words and not _confirm(f"Delete {names_words}? (y/[n]) "):
        print("Nothing was deleted.")
        return
    for name in names:
        caller.namespace.pop(name, None)


def _own_names(caller: MagicContext) -> list[str]:
    """Return the names that cells have set."""
    return [
        name
        for name in list(caller.namespace)
        if type(name) is str and name not in HIDDEN_NAMES and not name.startswith("__")
    ]


def _confirm(question: str) -> bool:
    answer: str = builtins.__dict__["input"](question)
    return answer.strip().lower() in ("y", "yes")
