"""Which cells make a variable again."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.records import Record
from mahtab_tui.session.private_names import VariableHistory
from tests import tags
from tests.records import made


def cell(number: int, code: str, *changes: tuple[str, str], restored: bool = False) -> list[Record]:
    """A cell and what it changed: names, and how."""
    rows = [
        {"name": name, "change": change, "type": "int", "summary": "", "kind": "data"}
        for name, change in changes
    ]
    return [
        made(tags.USER_REPL_IN, code, {"cell": number, "party": "you"}, 1.0),
        made(
            tags.NAMESPACE,
            "",
            {"cell": number, "party": "you", "changes": rows, "restored": restored},
            1.0,
        ),
    ]


def undo(*cells: int, undone: bool = True) -> Record:
    return made(tags.USER_UNDO, "", {"cells": cells, "undone": undone}, 1.0)


STORY = [
    *cell(1, "import socket", ("socket", "added")),
    *cell(2, "sock = 1", ("sock", "added")),
    *cell(3, "host = 'a'\nsock = socket.socket()", ("host", "added"), ("sock", "rebound")),
    *cell(4, "print(sock)"),
    *cell(5, "port = 5", ("port", "added")),
    *cell(6, "sock.connect((host, port))\n", ("sock", "perhaps")),
    *cell(7, "both = sock, gone", ("both", "added")),
    *cell(8, "gone = 1", ("gone", "added")),
    *cell(9, "del gone", ("gone", "deleted")),
]


@pytest.mark.parametrize(
    ("name", "missing", "cells"),
    [
        ("sock", {"sock"}, [3, 6]),
        ("sock", {"sock", "port"}, [3, 5, 6]),
        ("both", {"sock", "both", "socket"}, [1, 3, 6, 7]),
        ("gone", {"gone"}, []),
        ("unknown", {"unknown"}, []),
    ],
)
def test_source_cells_and_their_dependencies_come_in_order(
    name: str, missing: set[str], cells: list[int]
) -> None:
    code = VariableHistory(STORY).code_for(name, missing)
    assert [
        int(line.split()[2]) for line in code.splitlines() if line.startswith("# cell ")
    ] == cells


def test_names_read_by_a_function_count_wherever_they_are_defined() -> None:
    story = [
        *cell(1, "def root(n): return n + base", ("root", "added")),
        *cell(2, "items = [1]", ("items", "added")),
        *cell(3, "items = [root(3)]", ("items", "rebound")),
        *cell(4, "base = 5", ("base", "added")),
    ]
    code = VariableHistory(story).code_for("items", {"items", "root", "base"})
    assert [line for line in code.splitlines() if line.startswith("# cell ")] == [
        "# cell 1",
        "# cell 3",
        "# cell 4",
    ]


def test_rebuilt_code_is_one_cell() -> None:
    assert VariableHistory(STORY).code_for("sock", set()) == (
        "# cell 3\nhost = 'a'\nsock = socket.socket()\n\n# cell 6\nsock.connect((host, port))"
    )


def test_undone_cells_count_only_after_a_redo() -> None:
    story = [
        *cell(1, "v = 1", ("v", "added")),
        *cell(2, "v = 2", ("v", "rebound")),
        undo(2),
        *cell(2, "", ("v", "rebound"), restored=True)[1:],
    ]
    assert VariableHistory(story).code_for("v", set()) == "# cell 1\nv = 1"
    assert (
        VariableHistory([*story, undo(2, undone=False)]).code_for("v", set()) == "# cell 2\nv = 2"
    )
