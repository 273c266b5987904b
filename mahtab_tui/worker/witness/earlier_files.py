"""What places and files are now, and what they were before some steps.

A step can only be taken back for a place or a file that is exactly what the step has left there. So this goes from
the newest step to the oldest, and stops at the first one that something outside the cells has followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .file_step import FileStep
from .journal import FileJournal
from .nodes import Name, Node, Version
from .states import FILE

STILL_CHANGING = "it was changed in the background after a cell, so it stays as it is now"
STILL_OPEN = "it is open for writing and has changed since the cell, so it stays as it is now"
CHANGED_SINCE = "it was changed since by something outside the cells, so it stays as it is now"


class EarlierFiles:
    """The places and files that some steps have touched, as they were before, as far as nothing else has
    changed them."""

    def __init__(self, journal: FileJournal, steps: Sequence[FileStep]) -> None:
        """Look at what is there now, and go back from that.

        Args:
            journal: Has the steps.
            steps: The steps, the oldest first.
        """
        self._journal = journal
        self._nodes = journal.nodes
        self._steps = steps
        self.actual: dict[Name, Node | None] = {}
        """What the places lead to that the steps have changed."""
        self.targets: dict[Name, Node | None] = {}
        """What they led to before."""
        self.name_reasons: dict[Name, str] = {}
        """Why places are not what they were before all steps."""
        self.versions: dict[Node, Version] = {}
        """What files and folders were."""
        self.node_reasons: dict[Node, str] = {}
        """Why files are not what they were before all steps."""
        self.nameless: set[Node] = set()
        """Files and folders that had no name before the steps, and may lose theirs."""
        self.link_counts: dict[Node, int] = {}
        """How many names files had."""
        self._places: dict[Node, list[Name]] = {}
        """Where files and folders are now, by node."""
        self._obstacles: dict[Node, int] = {}
        """The index of the newest step that cannot be taken back for a file."""
        self._trace_all()

    def is_touched(self, node: Node) -> bool:
        """Return whether the steps have touched a file or folder."""
        return node in self.versions

    def places(self, node: Node) -> list[Name]:
        """Return the known places at which a file or folder is now."""
        if node not in self._places:
            self._places[node] = self._nodes.names_of(node)
        return self._places[node]

    def _trace_all(self) -> None:
        """Trace all places, and all files and folders that the steps have touched."""
        nodes: dict[Node, None] = {}
        names: dict[Name, None] = {}
        for step in reversed(self._steps):
            names.update(dict.fromkeys(step.names))
            nodes.update(dict.fromkeys(step.nodes))
            # Beyond the limit of a cell, nothing else is known of these.
            before = [change.before for change in step.names.values()]
            nodes.update(dict.fromkeys(node for node in before if node is not None))
        present = self._nodes.find_all(names, self._nodes.identify)
        self.actual = {name: present.get(name) for name in names}
        for node in nodes:
            path = self._nodes.path_of(node)
            if path:
                self._nodes.sync(node, self._nodes.read_state(path), path)
        nodes.update(dict.fromkeys(node for node in self.actual.values() if node is not None))
        for node in nodes:
            self._places[node] = self._nodes.names_of(node)
            self._trace_node(node)
        for name in names:
            self._trace_name(name)

    def _trace_node(self, node: Node) -> None:
        """Find what a file or folder was before all steps; or after the newest of them that something
        outside the cells has followed."""
        version = node.version
        link_count = node.count_names(node.seen) if self._places[node] else 0
        for index in reversed(range(len(self._steps))):
            change = self._steps[index].nodes.get(node)
            if change is None:
                continue
            is_changed = self._steps[index].is_background or change.after is not version
            # What is written into a file would be in a name, too, that something else has given it.
            has_new_name = node.kind == FILE and link_count > change.links_after
            link_count = change.links
            if is_changed or has_new_name:
                self._obstacles[node] = index
                self.node_reasons[node] = self._reason(node, index)
                break
            # What the cells have made stays as it is for a redo.
            version = change.before or node.version
            self.link_counts[node] = change.links
            if change.is_nameless:
                self.nameless.add(node)
                break
        self.versions[node] = version

    def _trace_name(self, name: Name) -> None:
        """Find what a place led to before all steps, as `_trace_node` does for a file."""
        node = self.actual[name]
        changes = [
            (index, step.names[name])
            for index, step in enumerate(self._steps)
            if name in step.names
        ]
        _, oldest_change = changes[0]
        _, newest_change = changes[-1]
        for index, change in reversed(changes):
            is_background = self._steps[index].is_background
            files = [file for file in (change.before, change.after) if file is not None]
            obstructed = [file for file in files if self._obstacles.get(file, -1) >= index]
            if is_background or change.after is not node or obstructed:
                # Something else may have given it back what it led to.
                is_original = node is oldest_change.before and change is newest_change
                if is_background or not is_original:
                    self.name_reasons[name] = self._reason(node, index)
                    if obstructed:
                        self.name_reasons[name] = self.node_reasons[obstructed[0]]
                break
            node = change.before
        self.targets[name] = node

    def _reason(self, node: Node | None, index: int) -> str:
        """Return why a step cannot be taken back for something.

        Args:
            node: The file or folder, or what its place leads to.
            index: The step's index.
        """
        if self._steps[index].is_background:
            return STILL_CHANGING
        if node in self._journal.open_nodes:
            return STILL_OPEN
        return CHANGED_SINCE
