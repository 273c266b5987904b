"""What an undo of files does, path by path, for the user: what changes, and what stays as it is, with the
reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..tools.line_diff import unified_diff
from .earlier_files import CHANGED_SINCE
from .file_step import FileStep
from .journal import FileJournal
from .nodes import Name, Node
from .states import FILE, read_state
from .undo_decision import UndoDecision

MAX_DIFF_BYTES = 65_536
"""Bytes of a text whose differences are shown, before or after."""
MAX_DIFF_LINES = 30
"""Lines of differences that are shown of a text."""

_OTHER_NAMES = (
    "it has its content again, but is not the same file as its other names any more (hard links)"
)


class PathRestoration(NamedTuple):
    """What an undo does to a path. The fields are those on the wire."""

    path: str
    action: str
    """restore, create again, remove, or rename back."""
    diff: str = ""
    """How the content changes by it; empty for what is not a small text."""


class UnrestoredFile(NamedTuple):
    """A path that stays as it is. The fields are those on the wire."""

    name: str
    reason: str


class UndoPlan:
    """What taking back steps does, and how it is described. Making it changes nothing."""

    def __init__(self, journal: FileJournal, steps: Sequence[FileStep]) -> None:
        """Decide what can be taken back, and describe it as long as nothing has changed.

        Args:
            journal: Has the steps, and the copies of files.
            steps: The steps to take back, the oldest first.
        """
        self._steps = steps
        self._nodes = journal.nodes
        self.decision = UndoDecision(journal, steps)
        self.failures: dict[str, str] = {}
        """By path, what could not be done although it was planned."""
        self._files = self._describe()
        self._unrestored = self._name_unrestored()
        self._problems = dict.fromkeys(problem for step in steps for problem in step.problems)
        """What is not known of the steps, as sentences."""

    @property
    def files(self) -> dict[str, PathRestoration]:
        """What is done, by path."""
        return {path: file for path, file in self._files.items() if path not in self.failures}

    @property
    def unrestored(self) -> list[UnrestoredFile]:
        """What stays as it is; sentences about no single path come last."""
        reasons = {**self._unrestored, **self.failures}
        return [
            *(UnrestoredFile(path, reason) for path, reason in reasons.items()),
            *(UnrestoredFile("", sentence) for sentence in self._problems),
        ]

    def refused_part(self, step: FileStep) -> FileStep:
        """Return what of a step could not be taken back."""
        decision = self.decision
        refused_names = {**decision.earlier.name_reasons, **decision.name_refusals}
        refused_nodes = {**decision.earlier.node_reasons, **decision.node_refusals}
        refused = FileStep(step.cell, step.known_count)
        refused.is_closed = True
        refused.names = {
            name: change
            for name, change in step.names.items()
            if name in refused_names or decision.path(name) in self.failures
        }
        named_nodes = {change.before for change in refused.names.values()}
        refused.nodes = {
            node: change
            for node, change in step.nodes.items()
            if node in named_nodes or node in refused_nodes
        }
        return refused

    def _describe(self) -> dict[str, PathRestoration]:
        """Return what is done, by path."""
        decision = self.decision
        files: dict[str, PathRestoration] = {}
        moved = {decision.actual[name] for name in decision.changed} & {
            decision.final[name] for name in decision.changed
        }
        for name in decision.changed:
            before = decision.actual[name]
            after = decision.final[name]
            path = decision.path(name)
            if before is not None and after is not None:
                files[path] = PathRestoration(path, "restore", self._diff(before, after))
            elif after is not None:
                action = "rename back" if after in moved else "create again"
                files[path] = PathRestoration(path, action)
            elif before not in moved:
                files[path] = PathRestoration(path, "remove")
        for node in decision.contents():
            diff = self._diff(node, node)
            for path in decision.final_paths(node):
                files.setdefault(path, PathRestoration(path, "restore", diff))
        return files

    def _diff(self, before: Node, after: Node) -> str:
        """Return how the content at a place changes, if both are small texts.

        Args:
            before: What is there now.
            after: What is there after the undo.
        """
        if before.kind != FILE or after.kind != FILE:
            return ""
        old_content = self.decision.version(after).content
        old_path = ""
        if old_content.copy is not None:
            old_path = old_content.copy.path
        if not old_path and old_content is after.version.content:
            old_path = self._nodes.path_of(after)
        return _describe_diff(_read_text(self._nodes.path_of(before)), _read_text(old_path))

    def _name_unrestored(self) -> dict[str, str]:
        """Return why paths are not as they were before the steps."""
        decision = self.decision
        refused_names = {**decision.earlier.name_reasons, **decision.name_refusals}
        refused_nodes = {**decision.earlier.node_reasons, **decision.node_refusals}
        reasons = {decision.path(name): reason for name, reason in refused_names.items()}
        for node, reason in refused_nodes.items():
            for path in decision.final_paths(node):
                reasons.setdefault(path, reason)
        for name in self._missing_names():
            reasons.setdefault(decision.path(name), CHANGED_SINCE)
        for name in decision.changed:
            if decision.loses_names(decision.final[name]):
                reasons.setdefault(decision.path(name), _OTHER_NAMES)
        return reasons

    def _missing_names(self) -> Iterable[Name]:
        """Yield the names of files that would change, if something else had not removed them."""
        renamed = {
            node
            for step in self._steps
            for change in step.names.values()
            for node in (change.before, change.after)
        }
        earlier = self.decision.earlier
        for node, version in earlier.versions.items():
            is_there = earlier.places(node) or node.is_held or node in renamed
            if not is_there and version is not node.version:
                yield from list(node.names)[-1:]


def _describe_diff(now_text: str | None, old_text: str | None) -> str:
    """Return the lines that change when a text is restored; empty for what is not a small text."""
    if now_text is None or old_text is None:
        return ""
    lines = unified_diff(now_text.splitlines(), old_text.splitlines(), context_lines=1)
    omitted_count = len(lines) - MAX_DIFF_LINES
    if omitted_count > 0:
        lines[MAX_DIFF_LINES:] = [f"… {omitted_count:,} more lines"]
    return "\n".join(lines)


def _read_text(path: str) -> str | None:
    """Return the text in a file; None if it is not a small text."""
    with suppress(OSError, UnicodeDecodeError):
        if read_state(path).kind == FILE:
            with open(path, "rb") as file:
                data = file.read(MAX_DIFF_BYTES + 1)
            if len(data) <= MAX_DIFF_BYTES and b"\0" not in data:
                return data.decode()
    return None
