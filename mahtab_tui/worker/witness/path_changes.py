"""Says what a cell has done to files, path by path, as its result lists it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from .file_step import FileStep
from .node_table import NodeTable
from .nodes import Name, Node


class PathChange(NamedTuple):
    """What a cell has done to a path."""

    change: str
    """new, changed, renamed or removed."""
    path: str
    old_path: str = ""
    """The path before a renaming; empty if there was none."""


def list_path_changes(step: FileStep, nodes: NodeTable) -> Iterator[PathChange]:
    """Yield what a step has done to paths; what was only written comes last.

    Of a new or a removed folder, only the folder itself is named, and not what is in it.

    Args:
        step: The step of a cell that has ended.
        nodes: All files and folders.
    """
    old_places = {
        change.before: name
        for name, change in step.names.items()
        if change.before is not None and change.after is None
    }
    new_nodes = {
        change.after
        for change in step.names.values()
        if change.before is None and change.after is not None
    }
    renamed_nodes = new_nodes & old_places.keys()
    new_or_removed = (new_nodes | old_places.keys()) - renamed_nodes
    changed_names: dict[Name, None] = {}
    for name, change in step.names.items():
        is_renamed = change.before is None and change.after in renamed_nodes
        if not is_renamed and not new_or_removed.isdisjoint(name.folders()):
            continue
        if change.after is None:
            if change.before not in renamed_nodes:
                yield PathChange("removed", _old_path(name, old_places))
        elif change.before is not None:
            changed_names[name] = None
        elif is_renamed:
            yield PathChange("renamed", name.path, _old_path(old_places[change.after], old_places))
        else:
            yield PathChange("new", name.path)

    changed_names.update(dict.fromkeys(_names_of_changed(step, nodes, new_or_removed)))
    for name in changed_names:
        yield PathChange("changed", name.path)


def _names_of_changed(
    step: FileStep, nodes: NodeTable, new_or_removed: Set[Node]
) -> Iterator[Name]:
    """Yield a name of each file that has changed, unless its name has changed, too, or it lies in a new
    or a removed folder."""
    for node, change in step.nodes.items():
        if change.before is None or change.before is change.after:
            continue
        for name in nodes.names_of(node)[:1]:
            if name not in step.names and new_or_removed.isdisjoint(name.folders()):
                yield name


def _old_path(name: Name, old_places: Mapping[Node, Name]) -> str:
    """Return a path as it was before folders were renamed.

    Args:
        name: The place.
        old_places: Where renamed folders were before.
    """
    parts = [name.text]
    folder = name.folder
    seen_folders: set[Node] = set()
    while folder in old_places and folder not in seen_folders:
        seen_folders.add(folder)
        place = old_places[folder]
        parts.append(place.text)
        folder = place.folder
    return "/".join((folder.path, *reversed(parts)))
