"""Tools of servers as Python functions, and their results."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

from mahtab_tui.servers import tool_calls
from mahtab_tui.servers.state import ServerError
from mahtab_tui.servers.tool_arguments import ArgumentsError, check_arguments
from mahtab_tui.servers.tool_calls import MAX_CALL_ROUNDS, MAX_REQUEST_STATE_CHARS, call_tool
from mahtab_tui.servers.tool_results import MAX_STRUCTURE_BYTES, error_text, result_parts
from mahtab_tui.servers.tool_signature import (
    ToolSignature,
    build_signature,
    identifier,
    with_required,
)
from mahtab_tui.worker.link.json_structure import exceeds_structure_limit
from mahtab_tui.worker.tools.tool_functions import make_tool_function

RECURSIVE: dict[str, Any] = {
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
    "$ref": "#/$defs/node",
    "properties": {"a": {}},
}
DEEP: Any = {}

HOSTILE: list[Any] = [
    None,
    [],
    "text",
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
            for name in ["a b", "\n", *"self __call__ __others__ print None a_b def".split()]
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

WRAPPED = {"type": "object", "properties": {"result": {"type": "string"}}}

DONE: dict[str, Any] = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
SAMPLING = {"method": "roots/list"}


def make_signature(schema: Any, description: str = "Words.") -> ToolSignature:
    return build_signature("the-tool", schema, description, read_only=False, name="the_tool")


def make_function(tool: ToolSignature) -> Any:
    parameters = [parameter._asdict() for parameter in tool.parameters]
    described = {**tool._asdict(), "parameters": parameters}
    return make_tool_function(described, "it", lambda wire, arguments: None)


@pytest.mark.parametrize(
    ("name", "taken_names", "expected"),
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
def test_any_name_becomes_a_python_name(
    name: str, taken_names: tuple[str, ...], expected: str
) -> None:
    assert identifier(name, taken_names) == expected
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
    tool = make_signature(schema, "Search.\nMore words.")
    optional_parameters = "labels: list[str] = ..., sort: str | None = ..., from_: object = ..."
    assert tool.written == f"(query: str, *, per_page: int = 30, {optional_parameters})"
    arguments = "per_page: How many at once.\nsort: One of 'new', 'old'."
    assert tool.doc == f"Search.\nMore words.\n\n{arguments}"
    assert tool.summary == "Search."
    assert {parameter.name: parameter.wire for parameter in tool.parameters}[
        "per_page"
    ] == "per-page"
    assert make_function(tool).__doc__ == tool.doc


for _ in range(5_000):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_no_schema_raises(schema: Any) -> None:
    tool = make_signature(schema)
    assert callable(make_function(tool))
    assert len(tool.doc) < 10_000
    with suppress(ArgumentsError):
        check_arguments({"a": "x"}, schema)


def test_slow_pattern_is_left_to_the_server() -> None:
    def check(value: str, schema: dict[str, Any]) -> None:
        check_arguments({"a": value}, {"properties": {"a": schema}})

    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(?:(?:a|b|ab)*)*c"):
        with suppress(ArgumentsError):
            check("ab" + "a" * 5_000 + "!", {"pattern": pattern})
    slow = {"pattern": "(x+x+)+y"}
    check("x" * 3_000, slow)
    check("x" * 3_000, {"$schema": "http://json-schema.org/draft-07/schema#", **slow})
    check_arguments({"x" * 3_000: 1}, {"patternProperties": {"(x+x+)+y": {"type": "string"}}})


def test_branching_schema_is_left_to_the_server() -> None:
    branching: dict[str, Any] = {
        "$defs": {
            "n": {"anyOf": [{"not": {"$ref": "#/$defs/m"}}] * 9},
            "m": {"anyOf": [{"type": "null"}] * 9},
        }
    }
    for name, following in pairwise([*(f"d{number}" for number in range(20)), "m"]):
        branching["$defs"][name] = {"anyOf": [{"$ref": f"#/$defs/{following}"}] * 9}
    check_arguments({"a": "x"}, {**branching, "properties": {"a": {"$ref": "#/$defs/d0"}}})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "The argument query is missing."),
        ({"query": 3}, "The argument query is wrong: 3 is not of type 'string'."),
        (
            {"query": "x", "inner": {"n": "y"}},
            "The argument inner.n is wrong: 'y' is not of type 'integer'.",
        ),
        (
            {"query": "x", "more": 1},
            "The arguments are wrong: Additional properties are not allowed ('more' was unexpected).",
        ),
    ],
)
def test_wrong_argument_is_named(arguments: dict[str, Any], sentence: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "inner": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    with pytest.raises(ArgumentsError) as raised:
        check_arguments(arguments, schema)
    assert str(raised.value) == sentence


def test_bounds_of_draft_4_are_understood() -> None:
    schema = {
        "properties": {
            "n": {
                "type": "number",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": False,
            }
        }
    }
    for number in (1, 0.5, 9):
        check_arguments({"n": number}, schema)
    for number in (0, 9.5):
        with pytest.raises(ArgumentsError, match="The argument n is wrong"):
            check_arguments({"n": number}, schema)
    check_arguments({"n": 0}, {"properties": {"n": {"exclusiveMinimum": True}}})


def test_undescribed_argument_can_be_passed() -> None:
    schema = {"properties": {"a": {}}, "required": ["b"], "additionalProperties": False}
    complete = with_required(schema)
    assert make_signature(complete).written == "(b: object, *, a: object = ...)"
    check_arguments({"b": 1}, complete)


@pytest.mark.parametrize("word", ["anyOf", "patternProperties", "$ref"])
def test_arguments_of_a_reference_can_be_passed(word: str) -> None:
    tool = make_signature({"properties": {"a": {}}, word: {}})
    assert tool.written == "(*, a: object = ..., **arguments)"


def test_signature_of_an_open_tool_has_each_name_once() -> None:
    tool = make_signature({"properties": {"arguments": {}}, "anyOf": {}})
    assert tool.written == "(*, arguments: object = ..., **arguments_2)"


def test_slow_json_in_a_text_stays_a_text() -> None:
    texts = [f"[{'[1],' * 600_000}1]", "[[1],1]"]
    content: Any = [types.TextContent(type="text", text=text) for text in texts]
    parts = result_parts(types.CallToolResult(content=content), None)
    assert [part["kind"] for part in parts] == ["text", "json"]


def test_only_message_structure_is_limited() -> None:
    long_text = b'{"a": "' + b"[1]," * 2_000_000 + b'"}'
    many_values = b'{"a": [' + b"[1]," * 1_000_000 + b"1]}"
    assert not exceeds_structure_limit(long_text, MAX_STRUCTURE_BYTES)
    assert exceeds_structure_limit(many_values, MAX_STRUCTURE_BYTES)


@pytest.mark.parametrize(
    ("result", "part"),
    [
        ('{"n": 1}', {"kind": "json", "value": {"n": 1}}),
        ("[1, 2]", {"kind": "json", "value": [1, 2]}),
        (' {"n": 1}\n', {"kind": "json", "value": {"n": 1}}),
        ("words", {"kind": "text", "text": "words"}),
    ],
)
def test_json_in_a_wrapped_text_is_read(result: str, part: dict[str, Any]) -> None:
    content: Any = [types.TextContent(type="text", text=result)]
    answer = types.CallToolResult(content=content, structured_content={"result": result})
    assert result_parts(answer, WRAPPED) == [part]


def test_the_reason_of_an_error_may_be_an_embedded_resource() -> None:
    resource = types.TextResourceContents(uri="file:///log", text="The disk is full.")
    content: Any = [
        types.TextContent(type="text", text="Failed."),
        types.EmbeddedResource(type="resource", resource=resource),
        types.ImageContent(type="image", data="", mime_type="image/png"),
    ]
    result = types.CallToolResult(content=content, structured_content={"code": 28})
    assert error_text(result) == "Failed.\nThe disk is full."


def test_the_reason_of_an_error_may_be_a_link_or_structured() -> None:
    link = types.ResourceLink(name="log", uri="file:///log", description="See the log")
    assert error_text(types.CallToolResult(content=[link])) == "See the log: file:///log"
    structured = types.CallToolResult(content=[], structured_content={"error": "Über 5 MB"})
    assert error_text(structured) == '{"error": "Über 5 MB"}'


class ScriptedServer:
    """Answers calls in order, and repeats the last answer."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)
        self.states: list[str | None] = []

    async def send_request(self, request: types.CallToolRequest, result: TypeAdapter[Any]) -> Any:
        self.states.append(request.params.request_state)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return result.validate_python(answer)


def input_required(**fields: Any) -> dict[str, Any]:
    return {"resultType": "input_required", **fields}


async def call(server: ScriptedServer) -> types.CallToolResult:
    return await call_tool(cast("ClientSession", server), "save", {"a": 1})


async def test_a_call_is_repeated_with_the_servers_state_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_calls, "_ROUND_PAUSE_S", 0.0)
    server = ScriptedServer(
        input_required(requestState=" a\x00b "), input_required(requestState="2"), DONE
    )
    assert error_text(await call(server)) == "done"
    assert server.states == [None, " a\x00b ", "2"]


async def test_a_server_that_asks_for_ever_or_for_input_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_calls, "_ROUND_PAUSE_S", 0.0)
    server = ScriptedServer(input_required(requestState="x"))
    with pytest.raises(ServerError, match=r"^save was not finished: it asked 10 times"):
        await call(server)
    assert len(server.states) == MAX_CALL_ROUNDS
    with pytest.raises(ServerError, match="its state is too large"):
        await call(ScriptedServer(input_required(requestState="x" * (MAX_REQUEST_STATE_CHARS + 1))))
    with pytest.raises(ServerError, match=r"asks for more input \(roots/list\), which"):
        await call(ScriptedServer(input_required(inputRequests={"1": SAMPLING})))
