"""The names that a locked fork may bind in the kernel."""

from __future__ import annotations

import os.path

import pytest

from mahtab_tui.worker.guard.fork_messages import may_name_module, parse_cell

OS_PATH = os.path.__name__


@pytest.mark.parametrize(
    ("source", "name", "module", "may_name"),
    [
        ("from os import path", "path", OS_PATH, True),
        ("import os.path as p", "p", OS_PATH, True),
        ("from os import path as p", "p", OS_PATH, True),
        ("import ast as tree", "tree", "ast", True),
        ("", "ast", "ast", True),
        ("import os.path", "p", OS_PATH, False),
        ("from os import path", "path", "ast", False),
        ("from os import path as json", "json", OS_PATH, False),
        ("import missing as m", "m", "other_missing", False),
    ],
)
def test_a_module_gets_the_names_that_code_imports_it_by(
    source: str, name: str, module: str, *, may_name: bool
) -> None:
    assert may_name_module(name, module, parse_cell(source)) is may_name
