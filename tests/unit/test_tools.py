"""The tools: one function and one schema each, and those that packages bring."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import json
import sys
import threading
from collections.abc import Callable
from enum import Enum
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from mahtab_tui.knowledge.library import LoadedSkills, SkillLibrary
from mahtab_tui.knowledge.skills import SkillsLoader
from mahtab_tui.tools import Tool, ToolError, Toolset, Workplace, get_all_tools
from mahtab_tui.worker.control import make_host_function
from tests.skills import write_skill
from tests.unit.test_project_files import ESCAPES

# The tools: one function and one schema each, from which all else is made.


def toolset(folder: Path, problems: list[str] | None = None) -> Toolset:
    library = SkillLibrary(SkillsLoader(folder / "skills"), pytest.fail)
    return Toolset(
        folder,
        library,
        LoadedSkills(lambda: library, 1_000),
        pytest.fail if problems is None else problems.append,
    )


def test_four_tools_are_langchain_tools_with_schemas(project: Path) -> None:
    tools = {tool.name: tool for tool in get_all_tools()}
    assert list(tools) == ["search_skills", "load_skill", "search_code", "read_file"]
    assert all(
        tool.description and tool.get_input_jsonschema()["properties"] for tool in tools.values()
    )
    assert (
        tools["search_code"].args["pattern"]["description"] == "a regular expression, as in Python"
    )
    assert tools["search_skills"].args["limit"]["default"] == 5


def test_tool_failure_comes_back_as_text(project: Path) -> None:
    read_file = {tool.name: tool for tool in get_all_tools()}["read_file"]
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
    for name, arguments, sentence in [
        ("read_file", {"path": "x"}, "File not found: x"),
        (
            "read_file",
            {"paht": "x"},
            "read_file was not called: path: Field required; paht: Extra inputs are not permitted.",
        ),
        (
            "search_code",
            {"pattern": "("},
            "'(' is not a regular expression: missing ), unterminated subpattern at position 0.",
        ),
        ("load_skill", {"name": "none"}, "There is no skill 'none'. Skills: none."),
        (
            "reed_file",
            {},
            "There is no tool 'reed_file'. Tools: search_skills, load_skill, search_code, read_file.",
        ),
    ]:
        with pytest.raises(ToolError) as raised:
            tools.run(name, arguments)
        assert str(raised.value) == sentence


def test_each_argument_reaches_the_implementation(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Alpha\nalpha\nALPHA\nomega\n")
    (tmp_path / "a.log").write_text("alpha\n")
    (tmp_path / "b.cbl").write_bytes("GRÜSSE\n".encode("cp273"))
    for name in ("tidy", "tidy-up"):
        write_skill(tmp_path / "skills", name, content="x" * 600)
    (tmp_path / "skills" / "tidy" / "more.md").write_text("And sweep.")
    run = toolset(tmp_path).run
    assert run(
        "search_code", {"pattern": "alpha", "file_pattern": "*.txt", "context_lines": 1}
    ).splitlines()[1:] == [
        "     1- Alpha",
        "     2: alpha",
        "     3- ALPHA",
    ]
    assert run(
        "search_code",
        {"pattern": "alpha", "file_pattern": "*.txt", "ignore_case": True, "limit": 2},
    ).splitlines()[1:] == [
        "     1: Alpha",
        "     2: alpha",
        "     3- ALPHA",
        "     4- omega",
        "[There is more; narrow the pattern or raise limit.]",
    ]
    assert run("search_code", {"pattern": "SSE", "encoding": "cp273"}) == "b.cbl\n     1: GRÜSSE"
    assert run("read_file", {"path": "a.txt", "start": 2, "end": 2}) == "     2  alpha"
    assert run("read_file", {"path": "b.cbl", "encoding": "cp273"}) == "     1  GRÜSSE"
    assert len(run("search_skills", {"query": "tidy", "limit": 1}).splitlines()) == 1
    assert run("load_skill", {"name": "tidy", "file": "more.md"}) == "And sweep."
    assert run("load_skill", {"name": "tidy", "args": "the desk"}).startswith(
        f"{'x' * 600}\n\nArguments: the desk\n\nFiles of this skill"
    )
    assert "[The skill does not stay loaded. The skill tidy-up has 600 characters" in run(
        "load_skill", {"name": "tidy-up"}
    )


def test_waiting_caller_can_cancel_a_search(tmp_path: Path) -> None:
    (tmp_path / "endless.txt").write_text("a" * 40)
    cancelled = threading.Event()
    cancelled.set()
    assert (
        toolset(tmp_path).run("search_code", {"pattern": "(a|a)*b$"}, cancelled) == "[Cancelled.]"
    )


def test_namespace_functions_use_the_same_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mahtab_tui.worker.control import Host

    tools = toolset(tmp_path)
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(Host, "call", staticmethod(lambda name, args: asked.append((name, args))))
    made = {function.name: make_host_function(function._asdict()) for function in tools.functions()}
    assert list(made) == ["search_skills", "load_skill", "skill", "search_code", "read_file"]
    assert (
        str(inspect.signature(made["read_file"]))
        == "(path: 'str', start: 'int' = 1, end: 'int | None' = None, encoding: 'str' = '') -> 'str'"
    )
    assert (inspect.getdoc(made["load_skill"]) or "").startswith(
        "Return the instructions of a skill"
    )
    made["read_file"](tmp_path, end=3)
    made["skill"]("tidy", "the desk")
    assert asked == [
        ("read_file", {"path": str(tmp_path), "start": 1, "end": 3, "encoding": ""}),
        ("load_skill", {"name": "tidy", "args": "the desk", "file": ""}),
    ]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        made["read_file"]()


def test_numbers_of_other_libraries_arrive_as_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numpy

    from mahtab_tui.worker.control import Host

    asked: list[Any] = []
    monkeypatch.setattr(Host, "call", staticmethod(lambda name, args: asked.append(args["limit"])))
    [function] = [
        function for function in toolset(tmp_path).functions() if function.name == "search_skills"
    ]
    make_host_function(function._asdict())("x", numpy.int64(7))
    assert (asked, type(asked[0])) == ([7], int)


@pytest.mark.parametrize("path", ESCAPES)
def test_tool_paths_cannot_leave_the_source_or_skill_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("the secret")
    folder = tmp_path / "code"
    for inside in (folder, write_skill(folder / "skills", "tidy").parent):
        (inside / "app.py").write_text("print(1)\n")
        (inside / "out").symlink_to(tmp_path / "secret")
        (inside / "up").symlink_to("..")
    tools = toolset(folder)
    for name, arguments in (
        ("read_file", {"path": path}),
        ("load_skill", {"name": "tidy", "file": path}),
    ):
        given = ""
        with contextlib.suppress(ToolError):
            given = tools.run(name, arguments)
        assert "the secret" not in given
        assert "root:" not in given


# Tools that packages bring by an entry point: what they may be, and what is said of those that
# cannot be used.


class CountLines(BaseModel):
    path: str = Field(description="A file of the project")
    times: int = 1


def count_lines(at: Workplace, given: CountLines) -> str:
    """Return how many lines a file of the project has."""
    return str(given.times * len(at.code.read_file(given.path).splitlines()))


counting = Tool(count_lines, CountLines)


def without_words(at: Workplace, given: CountLines) -> str:
    return ""


wordless = Tool(without_words, CountLines)
builtin_name = Tool(lambda at, given: "", CountLines)
no_tool = 42


def raising(at: Workplace, given: CountLines) -> str:
    """Fail in a way of its own."""
    raise KeyError("a plug-in's")


failing = Tool(raising, CountLines)


def leaving(at: Workplace, given: CountLines) -> str:
    """End the thread."""
    raise SystemExit(3)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unspeakable(at: Workplace, given: CountLines) -> str:
    """Fail without words."""
    raise Unspeakable


exiting, wordless_failing = Tool(leaving, CountLines), Tool(unspeakable, CountLines)


class Colour(Enum):
    RED = 1


class Odd(BaseModel):
    times: int = 1
    path: Path = Path("a/b")
    colour: Colour = Colour.RED
    only: Literal[Colour.RED] | None = None
    names: set[str] = Field(default_factory=lambda: {"x"})
    word: str


def odd_one(at: Workplace, given: Odd) -> str:
    """Say what was given."""
    return f"{given.times} {given.path!s} {given.colour} {given.names} {given.word}"


odd = Tool(odd_one, Odd)


def named(name: str) -> Callable[[Workplace, Any], str]:
    def function(at: Workplace, given: CountLines) -> str:
        """Do something."""
        return name

    function.__name__ = name
    return function


printing, also_printing = (
    Tool(named("print"), CountLines),
    Tool(named("fine"), CountLines, also="print"),
)
also_reading, also_nothing = (
    Tool(named("fine"), CountLines, also="read"),
    Tool(named("fine"), CountLines, also="not a name"),
)


class QuitFlow:
    """Finds a module that ends the program."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "tests.unit.leaving_module":
            raise SystemExit("no")


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have these objects of this file brought by entry points."""

    def bring(*values: str) -> None:
        found = EntryPoints(
            EntryPoint(value.partition(":")[2] or value, value, "mahtab_tui.tools")
            for value in values
        )
        monkeypatch.setattr(
            "mahtab_tui.tools.entry_points", lambda group: found.select(group=group)
        )

    return bring


def test_tool_of_a_package_is_available_everywhere(plug_ins: Any, tmp_path: Path) -> None:
    plug_ins(f"{__name__}:counting")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    tools = toolset(tmp_path)
    assert tools.run("count_lines", {"path": "a.txt"}) == "2"
    [function] = [function for function in tools.functions() if function.name == "count_lines"]
    assert function.parameters == (("path", "str", None), ("times", "int", "1"))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (f"{__name__}:wordless", "its function has no docstring"),
        (f"{__name__}:builtin_name", "its names are not valid in Python"),
        (f"{__name__}:no_tool", "it is not a mahtab_tui.tools.Tool"),
        ("mahtab_tui.tools:BUILTIN", "it is not a mahtab_tui.tools.Tool"),
        ("no_such_package_of_ours:tool", "ModuleNotFoundError"),
        ("tests.unit.leaving_module:tool", "SystemExit: no"),
        (f"{__name__}:printing", "a function print already exists"),
        (f"{__name__}:also_printing", "a function print already exists"),
        (f"{__name__}:counting", "a function count_lines already exists"),
        (f"{__name__}:also_reading", "a function read already exists"),
        (f"{__name__}:also_nothing", "its names are not valid in Python"),
    ],
)
def test_unusable_plug_in_is_one_problem_and_the_others_load(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setattr("sys.meta_path", [QuitFlow(), *sys.meta_path])
    plug_ins(value, f"{__name__}:counting")
    problems: list[str] = []
    assert list(toolset(tmp_path, problems).tools) == [
        "search_skills",
        "load_skill",
        "search_code",
        "read_file",
        "count_lines",
    ]
    [problem] = problems
    assert value in problem
    assert sentence in problem


def test_tool_loaded_by_an_earlier_session_is_available_again(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_ins(f"{__name__}:counting")
    monkeypatch.setitem(
        vars(builtins),
        "count_lines",
        make_host_function(toolset(tmp_path).tools["count_lines"].host_functions()[0]._asdict()),
    )
    assert "count_lines" in toolset(tmp_path).tools


def test_schema_with_non_json_values_becomes_a_namespace_function_too(
    plug_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mahtab_tui.worker.control import Host

    plug_ins(f"{__name__}:odd")
    tools = toolset(tmp_path)
    monkeypatch.setattr(
        Host, "call", staticmethod(lambda name, args: tools.run(name, json.loads(json.dumps(args))))
    )
    [function] = [
        make_host_function(function._asdict())
        for function in tools.functions()
        if function.name == "odd_one"
    ]
    assert str(inspect.signature(function)) == (
        "(word: 'str', times: 'int' = 1, path: 'Path' = 'a/b', colour: 'Colour' = 1, only: 'object' = None, names: 'set[str]' = ['x']) -> 'str'"
    )
    assert function("w") == "1 a/b Colour.RED {'x'} w"


def test_any_failure_of_a_packaged_tool_gives_one_sentence(plug_ins: Any, tmp_path: Path) -> None:
    plug_ins(*(f"{__name__}:{name}" for name in ("failing", "exiting", "wordless_failing")))
    tools = toolset(tmp_path)
    for name, sentence in [
        ("raising", 'raising failed: KeyError: "a plug-in\'s"'),
        ("leaving", "leaving failed: SystemExit: 3"),
        ("unspeakable", f"unspeakable failed: {__name__}.Unspeakable: <exception str() failed>"),
    ]:
        with pytest.raises(ToolError) as raised:
            tools.run(name, {"path": "x"})
        assert str(raised.value) == sentence
