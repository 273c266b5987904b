"""Tools of servers as Python functions, and their results."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mahtab_tui.servers.schema import (
    ToolSignature,
    build_signature,
    identifier,
    result_parts,
)
from mahtab_tui.worker.servers import make_objects


def described(schema: Any, description: str = "Words.") -> ToolSignature:
    return build_signature("the-tool", schema, description, read_only=False, name="the_tool")


def made(tool: ToolSignature) -> Any:
    from mahtab_tui.worker.servers import _function

    server = make_objects([{"name": "it", "about": ""}], lambda: None)["it"]
    return _function(
        server, {**tool._asdict(), "parameters": [each._asdict() for each in tool.parameters]}
    )


@pytest.mark.parametrize(
    ("name", "used", "expected"),
    [
        ("search-issues", (), "search_issues"),
        ("search_issues", ("search_issues",), "search_issues_2"),
        ("import", (), "import_"),
        ("__class__", (), "tool_class"),
        ("_load", (), "tool_load"),
        ("7zip", (), "tool_7zip"),
        ("größe", (), "gr_e"),
        ("\x1b[31m\u202e", (), "tool_31m"),
        ("", (), "tool"),
        ("…", (), "tool"),
        ("x" * 10_000, (), "x" * 60),
    ],
)
def test_any_name_becomes_a_python_name(name: str, used: tuple[str, ...], expected: str) -> None:
    assert identifier(name, used) == expected
    assert expected.isidentifier()


def test_signature_is_built_from_the_schema() -> None:
    schema = {
        "properties": {
            "per-page": {"type": "integer", "default": 30, "description": "How many\nat once."},
            "query": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "sort": {"type": ["string", "null"], "enum": ["new", "old"]},
            "from": {},
        },
        "required": ["query"],
    }
    tool = described(schema, "Search.\nMore words.")
    assert (
        tool.written
        == "(query: str, *, per_page: int = 30, labels: list[str] = ..., sort: str | None = ..., from_: object = ...)"
    )
    assert (
        tool.doc
        == "Search.\nMore words.\n\nper_page: How many at once.\nsort: One of 'new', 'old'."
    )
    assert tool.summary == "Search."
    assert {each.name: each.wire for each in tool.parameters}["per_page"] == "per-page"
    assert made(tool).__doc__ == tool.doc


RECURSIVE: dict[str, Any] = {
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
    "$ref": "#/$defs/node",
    "properties": {"a": {}},
}
DEEP: Any = {}
for _ in range(5_000):
    DEEP = {"not": DEEP}
HOSTILE: list[Any] = [
    {"properties": []},
    {"properties": {"a": None}, "required": {"a": 1}},
    {
        "properties": {
            "a": {"type": {"x": 1}, "default": float("inf"), "enum": "no list", "description": 3}
        },
        "additionalProperties": 7,
    },
    {"properties": {"a": {"default": 10**5000}}},
    {
        "properties": {
            name: {}
            for name in (
                "self",
                "__call__",
                "__others__",
                "print",
                "None",
                "a b",
                "a_b",
                "\n",
                "def",
            )
        }
    },
    {"properties": {f"argument{number}": {} for number in range(5_000)}},
    {"properties": {"a": {"default": '"); import os; os.abort(); ("'}}},
    {"type": "nonsense", "properties": {"a": {"type": "nonsense"}}},
    {"$ref": "http://127.0.0.1:9/schema"},
    {"properties": {"a": {"pattern": "("}}},
    RECURSIVE,
    DEEP,
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_no_schema_raises(schema: Any) -> None:
    tool = described(schema)
    assert callable(made(tool))
    assert len(tool.doc) < 10_000


def test_undescribed_required_argument_can_be_passed() -> None:
    assert described({"properties": {"a": {}}, "required": ["b"]}).written == "(**arguments)"


@pytest.mark.parametrize("word", ["anyOf", "patternProperties", "$ref"])
def test_arguments_described_by_a_reference_can_be_passed(word: str) -> None:
    assert (
        described({"properties": {"a": {}}, word: {}}).written
        == "(*, a: object = ..., **arguments)"
    )


def test_long_json_in_a_text_stays_a_text() -> None:
    long, short = f"[{'[1],' * 600_000}1]", "[[1],1]"
    result = types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in (long, short)]
    )
    assert [part["kind"] for part in result_parts(result, None)] == ["text", "json"]
