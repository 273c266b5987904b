"""The tools: one function and one schema each; and those of packages."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, Literal

import numpy
import pytest
from pydantic import BaseModel, Field

from mahtab_tui.knowledge.code import CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary
from mahtab_tui.knowledge.loaded_skills import LoadedSkills
from mahtab_tui.knowledge.skills_loader import SkillsLoader
from mahtab_tui.tools import Tool, ToolContext, ToolError
from mahtab_tui.tools.builtin import SearchSkills
from mahtab_tui.tools.langchain_tools import short_schema
from mahtab_tui.tools.toolset import Toolset, get_all_tools
from mahtab_tui.worker.link.host import Host
from mahtab_tui.worker.link.host_functions import make_host_function
from tests.skills import write_skill
from tests.unit.test_project_files import ESCAPES

BUILTIN = ["search_skills", "load_skill", "search_code", "read_file"]


def toolset(folder: Path, problems: list[str] | None = None) -> Toolset:
    library = SkillLibrary(SkillsLoader(folder / "skills"), pytest.fail)
    on_problem = pytest.fail if problems is None else problems.append
    return Toolset(folder, library, LoadedSkills(lambda: library, 1_000), on_problem)


def failure(tools: Toolset, name: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as raised:
        tools.run(name, arguments)
    return str(raised.value)


def namespace_functions(tools: Toolset) -> dict[str, Any]:
    return {function.name: make_host_function(function._asdict()) for function in tools.functions()}


def test_tools_are_langchain_tools_with_schemas_and_failures_as_text(project: Path) -> None:
    tools = {tool.name: tool for tool in get_all_tools()}
    assert list(tools) == BUILTIN
    for tool in tools.values():
        assert tool.description
        assert tool.get_input_jsonschema()["properties"]
    pattern = tools["search_code"].args["pattern"]
    assert pattern["description"] == "a regular expression, as in Python"
    assert tools["search_skills"].args["limit"]["default"] == 5
    read_file = tools["read_file"]
    assert read_file.invoke({"path": "xyz.cbl"}) == "File not found: xyz.cbl"
    assert "validation" in read_file.invoke({"start": 3}).lower()


def test_tools_work_in_their_given_folders(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    write_skill(tmp_path / "own", "tidy", "Tidy up")
    tools = {tool.name: tool for tool in get_all_tools(tmp_path, tmp_path / "own")}
    assert tools["search_code"].invoke({"pattern": "x"}) == "a.py\n     1: x = 1"
    assert tools["search_skills"].invoke({"query": "tidying"}) == "tidy: Tidy up"
    assert tools["load_skill"].invoke({"name": "tidy"}) == "Good."


def test_any_tool_failure_gives_one_sentence(tmp_path: Path) -> None:
    tools = toolset(tmp_path)
    wrong = "path: Field required; paht: Extra inputs are not permitted."
    pattern = "missing ), unterminated subpattern at position 0."
    for name, arguments, sentence in [
        ("read_file", {"path": "x"}, "File not found: x"),
        ("read_file", {"paht": "x"}, f"read_file was not called: {wrong}"),
        ("search_code", {"pattern": "("}, f"'(' is not a regular expression: {pattern}"),
        ("load_skill", {"name": "none"}, "There is no skill 'none'. Skills: none."),
        ("reed_file", {}, f"There is no tool 'reed_file'. Tools: {', '.join(BUILTIN)}."),
    ]:
        assert failure(tools, name, arguments) == sentence


def test_each_argument_reaches_the_implementation(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Alpha\nalpha\nALPHA\nomega\n")
    (tmp_path / "a.log").write_text("alpha\n")
    (tmp_path / "b.cbl").write_bytes("GRÜSSE\n".encode("cp273"))
    for name in ("tidy", "tidy-up"):
        write_skill(tmp_path / "skills", name, content="x" * 600)
    (tmp_path / "skills" / "tidy" / "more.md").write_text("And sweep.")
    run = toolset(tmp_path).run

    def search(**more_arguments: Any) -> list[str]:
        output = run("search_code", {"pattern": "alpha", "file_pattern": "*.txt", **more_arguments})
        return [line.strip() for line in output.splitlines()[1:]]

    assert search(context_lines=1) == ["1- Alpha", "2: alpha", "3- ALPHA"]
    *lines, more_arguments = search(ignore_case=True, limit=2)
    assert lines == ["1: Alpha", "2: alpha", "3- ALPHA", "4- omega"]
    assert more_arguments == "[There is more; narrow the pattern or raise limit.]"
    assert run("search_code", {"pattern": "SSE", "encoding": "cp273"}) == "b.cbl\n     1: GRÜSSE"
    assert run("read_file", {"path": "a.txt", "start": 2, "end": 2}) == "     2  alpha"
    assert run("read_file", {"path": "b.cbl", "encoding": "cp273"}) == "     1  GRÜSSE"
    assert len(run("search_skills", {"query": "tidy", "limit": 1}).splitlines()) == 1
    assert run("load_skill", {"name": "tidy", "file": "more.md"}) == "And sweep."
    text = run("load_skill", {"name": "tidy", "args": "the desk"})
    assert text.startswith(f"{'x' * 600}\n\nArguments: the desk\n\nFiles of this skill")
    refused = "[The skill does not stay loaded. The skill tidy-up has 600 characters"
    assert refused in run("load_skill", {"name": "tidy-up"})


def test_waiting_caller_can_cancel_a_search(tmp_path: Path) -> None:
    (tmp_path / "endless.txt").write_text("a" * 40)
    cancelled = threading.Event()
    cancelled.set()
    output = toolset(tmp_path).run("search_code", {"pattern": "(a|a)*b$"}, cancelled)
    assert output == "[Cancelled.]"


def test_namespace_functions_use_the_same_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_calls: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        Host, "call", staticmethod(lambda name, args: host_calls.append((name, args)))
    )
    functions = namespace_functions(toolset(tmp_path))
    assert list(functions) == ["search_skills", "load_skill", "skill", "search_code", "read_file"]
    parameters = "path: 'str', start: 'int' = 1, end: 'int | None' = None, encoding: 'str' = ''"
    assert str(inspect.signature(functions["read_file"])) == f"({parameters}) -> 'str'"
    doc = inspect.getdoc(functions["load_skill"]) or ""
    assert doc.startswith("Return the instructions of a skill")
    functions["read_file"](tmp_path, end=3)
    functions["skill"]("tidy", "the desk")
    assert host_calls == [
        ("read_file", {"path": str(tmp_path), "start": 1, "end": 3, "encoding": ""}),
        ("load_skill", {"name": "tidy", "args": "the desk", "file": ""}),
    ]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        functions["read_file"]()


def test_numbers_of_other_libraries_arrive_as_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits: list[Any] = []
    monkeypatch.setattr(Host, "call", staticmethod(lambda name, args: limits.append(args["limit"])))
    namespace_functions(toolset(tmp_path))["search_skills"]("x", numpy.int64(7))
    assert (limits, type(limits[0])) == ([7], int)


@pytest.mark.parametrize("path", ESCAPES)
def test_tool_paths_cannot_leave_the_source_or_skill_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("the secret")
    folder = tmp_path / "code"
    for inside in (folder, write_skill(folder / "skills", "tidy").parent):
        (inside / "app.py").write_text("print(1)\n")
        (inside / "out").symlink_to(tmp_path / "secret")
        (inside / "up").symlink_to("..")
    tools = toolset(folder)
    skill = {"name": "tidy", "file": path}
    for name, arguments in (("read_file", {"path": path}), ("load_skill", skill)):
        output = ""
        with contextlib.suppress(ToolError):
            output = tools.run(name, arguments)
        assert "the secret" not in output
        assert "root:" not in output


# Tools that packages provide by an entry point.


class CountLines(BaseModel):
    path: str = Field(description="A file of the project")
    times: int = 1


def count_lines(at: ToolContext, arguments: CountLines) -> str:
    """Return how many lines a file of the project has."""
    return str(arguments.times * len(at.code.read_file(arguments.path).splitlines()))


counting = Tool(count_lines, CountLines)


def without_words(at: ToolContext, arguments: CountLines) -> str:
    return ""


wordless = Tool(without_words, CountLines)


def named_nothing(at: ToolContext, arguments: CountLines) -> str:
    """Do nothing."""
    return ""


builtin_name = Tool(lambda at, given: "", CountLines)
no_tool = 42
module_as_function = Tool(json, CountLines)  # type: ignore[arg-type]
object_as_function = Tool(partial(named_nothing), CountLines)
no_model = Tool(count_lines, dict)  # type: ignore[arg-type]


def raising(at: ToolContext, arguments: CountLines) -> str:
    """Raise an error."""
    raise KeyError("a plug-in's")


failing = Tool(raising, CountLines)


def leaving(at: ToolContext, arguments: CountLines) -> str:
    """End the thread."""
    raise SystemExit(3)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unspeakable(at: ToolContext, arguments: CountLines) -> str:
    """Raise an error that cannot be shown."""
    raise Unspeakable


exiting = Tool(leaving, CountLines)
wordless_failing = Tool(unspeakable, CountLines)


class Colour(Enum):
    RED = 1


class Odd(BaseModel):
    times: int = 1
    path: Path = Path("a/b")
    colour: Colour = Colour.RED
    only: Literal[Colour.RED] | None = None
    names: set[str] = Field(default_factory=lambda: {"x"})
    word: str


def odd_one(at: ToolContext, arguments: Odd) -> str:
    """Return the arguments."""
    return f"{arguments.times} {arguments.path!s} {arguments.colour} {arguments.names} {arguments.word}"


odd = Tool(odd_one, Odd)


def named(name: str) -> Callable[[ToolContext, Any], str]:
    def function(at: ToolContext, arguments: CountLines) -> str:
        """Do something."""
        return name

    function.__name__ = name
    return function


printing = Tool(named("print"), CountLines)
terminal = Tool(named("terminal"), CountLines)
also_printing, also_reading, also_nothing = (
    Tool(named("fine"), CountLines, also=name) for name in ("print", "read", "not a name")
)


class QuitFlow:
    """Finds a module that ends the program."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "tests.unit.leaving_module":
            raise SystemExit("no")
        if name == "tests.unit.interrupted_module":
            raise KeyboardInterrupt


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Provide objects, of this file or by their full names, by entry points."""

    def provide(*names: str) -> None:
        values = (name if ":" in name else f"{__name__}:{name}" for name in names)
        group = "mahtab_tui.tools"
        entry_points = EntryPoints(
            EntryPoint(value.partition(":")[2], value, group) for value in values
        )
        monkeypatch.setattr(
            "mahtab_tui.tools.loading.entry_points", lambda group: entry_points.select(group=group)
        )

    return provide


def test_tool_of_a_package_is_available_everywhere(plug_ins: Any, tmp_path: Path) -> None:
    plug_ins("counting")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    tools = toolset(tmp_path)
    assert tools.run("count_lines", {"path": "a.txt"}) == "2"
    [function] = [function for function in tools.functions() if function.name == "count_lines"]
    assert function.parameters == (("path", "str", None), ("times", "int", "1"))
    assert tools.functions(without_builtin=True) == [function]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("wordless", "its function has no docstring"),
        ("builtin_name", "the name '<lambda>' is not valid in Python"),
        ("no_tool", "it is not a mahtab_tui.tools.Tool"),
        ("mahtab_tui.tools.builtin:BUILTIN_TOOLS", "it is not a mahtab_tui.tools.Tool"),
        ("no_such_package_of_ours:tool", "ModuleNotFoundError"),
        ("tests.unit.leaving_module:tool", "SystemExit: no"),
        ("printing", "the name print is already in use"),
        ("terminal", "the name terminal is already in use"),
        ("also_printing", "the name print is already in use"),
        ("counting", "the name count_lines is already in use"),
        ("also_reading", "the name read is already in use"),
        ("also_nothing", "the name 'not a name' is not valid in Python"),
        ("module_as_function", "its function cannot be called"),
        ("object_as_function", "its function has no name"),
        ("no_model", "its arguments are not a pydantic model"),
    ],
)
def test_unusable_plug_in_is_one_problem_and_the_others_load(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setattr("sys.meta_path", [QuitFlow(), *sys.meta_path])
    plug_ins(value, "counting")
    problems: list[str] = []
    assert list(toolset(tmp_path, problems).tools) == [*BUILTIN, "count_lines"]
    [problem] = problems
    assert (value if ":" in value else f"{__name__}:{value}") in problem
    assert sentence in problem


def test_interrupt_while_a_plug_in_loads_is_not_lost(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.meta_path", [QuitFlow(), *sys.meta_path])
    plug_ins("tests.unit.interrupted_module:tool")
    with pytest.raises(KeyboardInterrupt):
        _ = toolset(tmp_path, []).tools


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Shapes(BaseModel):
    shape: Circle | Square = Field(discriminator="kind")
    counts: dict[str, int] = Field(default_factory=dict, description="by name")
    point: tuple[float, str] = (0.0, "x")
    unit: Literal["cm"] = "cm"


def test_short_schema_keeps_the_types_of_all_arguments() -> None:
    properties = short_schema(Shapes)["properties"]
    assert len(properties["shape"]["oneOf"]) == 2
    assert properties["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert [item["type"] for item in properties["point"]["prefixItems"]] == ["number", "string"]
    assert properties["unit"] == {"const": "cm", "type": "string"}


def test_short_schemas_of_the_built_in_tools_are_small() -> None:
    assert short_schema(SearchSkills) == {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "words, or an identifier or a part of one",
            },
            "limit": {"type": "integer"},
        },
        "required": ["query"],
    }


def test_names_of_version_0_1_still_work(tmp_path: Path) -> None:
    import mahtab_tui.tools

    with pytest.warns(DeprecationWarning, match="ToolContext"):
        assert mahtab_tui.tools.Workplace is ToolContext
    tools = toolset(tmp_path)
    context = ToolContext(CodeSearcher(tmp_path), tools.skills, tools.loaded, threading.Event())
    with pytest.warns(DeprecationWarning, match="loaded_skills"):
        assert context.loaded is tools.loaded


def test_threads_get_the_same_offered_tools(tmp_path: Path) -> None:
    tools = toolset(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        offered_tools = list(threads.map(lambda _: tools.offered, range(8)))
    assert all(offered is offered_tools[0] for offered in offered_tools)


def test_tool_loaded_by_an_earlier_session_is_available_again(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_ins("counting")
    function = namespace_functions(toolset(tmp_path))["count_lines"]
    monkeypatch.setitem(vars(builtins), "count_lines", function)
    assert "count_lines" in toolset(tmp_path).tools


def test_schema_with_non_json_values_becomes_a_namespace_function_too(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_ins("odd")
    tools = toolset(tmp_path)

    def call(name: str, args: object) -> str:
        return tools.run(name, json.loads(json.dumps(args)))

    monkeypatch.setattr(Host, "call", staticmethod(call))
    function = namespace_functions(tools)["odd_one"]
    assert str(inspect.signature(function)) == (
        "(word: 'str', times: 'int' = 1, path: 'Path' = 'a/b', colour: 'Colour' = 1, only: 'object' = None, names: 'set[str]' = ['x']) -> 'str'"
    )
    assert function("w") == "1 a/b Colour.RED {'x'} w"


def test_any_failure_of_a_packaged_tool_gives_one_sentence(plug_ins: Any, tmp_path: Path) -> None:
    plug_ins("failing", "exiting", "wordless_failing")
    tools = toolset(tmp_path)
    for name, sentence in [
        ("raising", 'raising failed: KeyError: "a plug-in\'s"'),
        ("leaving", "leaving failed: SystemExit: 3"),
        ("unspeakable", f"unspeakable failed: {__name__}.Unspeakable: <exception str() failed>"),
    ]:
        assert failure(tools, name, {"path": "x"}) == sentence
