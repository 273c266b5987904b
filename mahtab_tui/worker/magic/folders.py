"""Magic commands that change the working folder, and remember where one has been."""

from __future__ import annotations

import builtins
import os
import re

from .state import MagicContext

_folder_stack: list[str] = []
"""What `%pushd` left, for `%popd`; the folder left last is first."""


def working_folder(text: str, caller: MagicContext) -> str:
    """`%pwd`: return the working folder."""
    return os.getcwd()


def change_folder(text: str, caller: MagicContext) -> None:
    """`%cd`: go to a folder, home without one, or back to an earlier one (`-`, `-0`)."""
    target = text.removeprefix("-q ").strip().strip("'\"") or "~"
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
    if not text.startswith("-q "):
        print(visited[-1])


def push_folder(rest: str, caller: MagicContext) -> None:
    """`%pushd`: go to a folder, and remember the one that is left."""
    folder = os.getcwd()
    change_folder(rest, caller)
    _folder_stack.insert(0, folder)


def pop_folder(rest: str, caller: MagicContext) -> None:
    """`%popd`: return to the folder that `%pushd` left last."""
    if not _folder_stack:
        raise LookupError("%popd has nowhere to return to: %pushd FOLDER goes to a folder")
    os.chdir(_folder_stack.pop(0))
    builtins.__dict__["_dh"].append(os.getcwd())
    print(os.getcwd())


def pushed_folders(rest: str, caller: MagicContext) -> list[str]:
    """`%dirs`: return the folders that `%pushd` left, the last one first."""
    return list(_folder_stack)


def show_visited_folders(text: str, caller: MagicContext) -> None:
    """`%dhist`: print the folders by number, the first one first."""
    for number, folder in enumerate(builtins.__dict__["_dh"]):
        print(f"{number}: {folder}")
