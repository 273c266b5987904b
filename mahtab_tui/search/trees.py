"""All searches of a session, one tree each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.search.tree import Tree

KEPT = 50
"""Trees that are kept; of more, the oldest finished ones go."""

_TAGS = frozenset({tags.RLM_CALL, tags.RLM_CHAT, tags.RLM_CHAT_STREAM, tags.RLM_REPL_IN, tags.RLM_REPL_OUT, tags.RLM_FINAL, tags.USAGE})


class Trees:
    """Fed by all records of the bus; takes those of searches."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._gone = 0

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        """The newest first."""
        return reversed(self._trees.values())

    def __getitem__(self, id: str) -> Tree:
        return self._trees[id]

    @property
    def structure(self) -> int:
        """Grows when nodes come, end or are asked about, in any tree."""
        return self._gone + sum(tree.structure for tree in self._trees.values())

    def fold(self, records: Sequence[Record]) -> bool:
        """Take in records; says whether any was of a search."""
        found = False
        for record in records:
            name = record.attrs.get("tree")
            if record.tag not in _TAGS or not isinstance(name, str):
                continue
            found = True
            if name not in self._trees:
                if record.tag != tags.RLM_CALL:
                    continue
                self._trees[name] = Tree(name)
                self._forget()
            self._trees[name].fold(record)
        return found

    def _forget(self) -> None:
        for tree in [tree for tree in self._trees.values() if tree.finished][: max(0, len(self._trees) - KEPT)]:
            self._gone += tree.structure + 1
            del self._trees[tree.id]
