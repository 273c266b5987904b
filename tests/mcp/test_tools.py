"""The tools besides eval."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

import anyio
import pytest

from tests.mcp.clients import Agent, agent, text_of, until
from tests.mcp.wheels import build_wheel, offline
from tests.waiting import run_python

SCHEMAS = Path(__file__).with_name("schemas.json")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROJECT = "[project]\nname = 'p'\nversion = '1'\nrequires-python = '>=3.11'\ndependencies = []\n"

BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "tiny-9-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("tiny.pth", os.getcwd() + "\\n")
        wheel.writestr("tiny-9.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 9\\n")
        wheel.writestr("tiny-9.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-9.dist-info/RECORD", "tiny.pth,,\\ntiny-9.dist-info/METADATA,,\\ntiny-9.dist-info/WHEEL,,\\ntiny-9.dist-info/RECORD,,\\n")
    return name
build_wheel = build_editable
"""


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    build_wheel(tmp_path / "wheels", "tiny", "1.0")
    return tmp_path / "wheels"


def virtual_environment(folder: Path, *, pip: bool = False) -> Path:
    """Create an environment, and return its Python."""
    venv.create(folder, symlinks=True)
    if pip:
        to = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
        for file in distribution("pip").files or ():
            if ".." in file.parts:  # its commands, which start our own Python
                continue
            copy = Path(to, file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), copy)
    return folder / "bin" / "python"


async def packaged(a: Agent, action: str, *packages: str) -> None:
    done = await a.call("pkg", action=action, packages=packages)
    assert not done.is_error, text_of(done)


async def version(a: Agent) -> str:
    await a.text("reset")
    return await a.value("import tiny; tiny.version")


def without_uv(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


async def test_list_of_tools_is_unchanged() -> None:
    async with agent() as a:
        listed = [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            for tool in (await a.client.list_tools()).tools
        ]
    if not SCHEMAS.exists():
        SCHEMAS.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert listed == json.loads(SCHEMAS.read_text("utf-8"))
    read_only = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in listed}
    assert read_only["info"] is True
    assert read_only["eval"] is False


async def test_undo_restores_mutations_and_names_what_it_cannot() -> None:
    async with agent() as a:
        assert "nothing to undo" in await a.text("undo")
        await a.eval("items, numbers = [1], iter([1, 2])")
        await a.eval("items.append(next(numbers))")
        await a.eval("items.append(3)")
        assert await a.text("undo", cell=9) != ""
        message = await a.text("undo", cell=2)
        assert "as it was before cell 2 ran" in message
        assert await a.eval("items") == "[1]"


async def test_reset_gives_a_fresh_worker_in_the_same_environment(tmp_path: Path) -> None:
    python = virtual_environment(tmp_path / "env")
    async with agent("--python", str(python)) as a:
        await a.eval("class T: pass\nx = 1")
        old, new = re.findall(r"orker (\d+)", await a.text("reset"))
        assert old != new
        assert "NameError" in await a.eval("x")
        assert await a.value("import sys; sys.prefix") == repr(str(tmp_path / "env"))


async def test_reset_stops_a_running_cell() -> None:
    async with agent() as a:
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "import time; time.sleep(600)")
            await until(lambda: a.reports)
            await a.text("reset")
        assert "All variables are gone" in a.answers[0]


async def test_info_lists_the_session_contents(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    async with agent("--project", str(tmp_path)) as a:
        await a.eval("import json\nrows = list(range(1000))")
        message = await a.text("info")
        assert message.endswith("\nmodules: json\nvariables:\n  rows: list 1,000 items")
        assert f"\nproject: {tmp_path} · working directory: {tmp_path}\n1 cell in " in message
        assert f" · worker {await a.value('import os; os.getpid()')} · private\n" in message


@pytest.mark.thorough
async def test_activate_moves_to_a_project_environment_or_interpreter(tmp_path: Path) -> None:
    project = tmp_path / "project"
    virtual_environment(project / ".venv")
    other_environment = virtual_environment(tmp_path / "other")
    conda = tmp_path / "conda"
    (conda / "conda-meta").mkdir(parents=True)
    (conda / "bin").mkdir()
    (conda / "bin" / "python").symlink_to(sys.executable)
    async with agent(cwd=tmp_path) as a:
        message = await a.text("activate", path="project")
        assert message.startswith(f"Activated the project {project}: Python ")
        assert message.endswith(f", in {project}.")
        assert await a.value("import sys; sys.prefix") == repr(str(project / ".venv"))
        assert await a.value("import os; os.getcwd()") == repr(str(project))
        assert f", {other_environment}, worker " in await a.text("activate", path="../other")
        assert "Activated the conda environment" in await a.text("activate", path=str(conda))
        assert "Activated the interpreter" in await a.text("activate", path=sys.executable)
        await a.eval("kept = 1")
        assert "Activated the project" in await a.text("activate", path=".")
        assert "does not exist" in await a.text("activate", path="nowhere")
        assert "neither" in await a.text("activate", path=str(conda / "bin"))
        await a.eval("kept = 2")
        assert "File name too long" in await a.text("activate", path="x" * 5_000)
        assert "unknown user" in await a.text("activate", path="~nobody-of-that-name/env")
        assert await a.eval("kept") == "2"


async def test_environment_variable_activates_a_project(tmp_path: Path) -> None:
    virtual_environment(tmp_path / ".venv")
    async with agent(MAHTAB_PROJECT=str(tmp_path)) as a:
        assert await a.value("import sys; sys.prefix") == repr(str(tmp_path / ".venv"))
        assert await a.value("import os; os.getcwd()") == repr(str(tmp_path))


@pytest.mark.thorough
async def test_packages_can_be_managed_with_pip(tmp_path: Path, wheels: Path) -> None:
    python = virtual_environment(tmp_path / "env", pip=True)
    environment = {**offline(wheels), "PATH": without_uv(tmp_path / "bin")}
    async with agent("--python", str(python), cwd=tmp_path, env=environment) as a:
        assert "ModuleNotFoundError" in await a.eval("import tiny")
        await packaged(a, "add", "tiny")
        assert await a.value("import tiny; tiny.version") == "'1.0'"
        assert "tiny" in await a.text("pkg", action="status")
        build_wheel(wheels, "tiny", "2.0")
        await a.text("pkg", action="update", packages=["tiny"])
        assert await version(a) == "'2.0'"
        await packaged(a, "rm", "tiny")
        failed = await a.call("pkg", action="add", packages=["not-there"])
        assert failed.is_error
        assert "No matching distribution" in text_of(failed)
        assert "needs the names" in await a.text("pkg", action="add")
        assert "is an option" in await a.text("pkg", action="add", packages=["--index-url=x"])
        assert "-m pytest -x" in await a.text("pkg", action="test", packages=["-x"])
        assert "neither a pyproject.toml" in await a.text("pkg", action="install")


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
async def test_packages_with_uv_keep_the_project_up_to_date(tmp_path: Path, wheels: Path) -> None:
    project = tmp_path / "project"
    virtual_environment(project / ".venv")
    (project / "pyproject.toml").write_text(PROJECT)
    async with agent("--project", str(project), env=offline(wheels)) as a:
        await packaged(a, "add", "tiny")
        assert "tiny" in (project / "pyproject.toml").read_text()
        assert await a.value("import tiny; tiny.version") == "'1.0'"
        build_wheel(wheels, "tiny", "2.0")
        await packaged(a, "update")
        assert 'version = "2.0"' in (project / "uv.lock").read_text()
        for action in ("resolve", "install", "status"):
            await packaged(a, action)
        await packaged(a, "rm", "tiny")
        assert "tiny" not in (project / "pyproject.toml").read_text()


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["uv, a project", "uv", "pip"])
async def test_package_can_be_made_editable_and_back(
    tmp_path: Path, wheels: Path, kind: str
) -> None:
    if kind != "pip" and shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    source = tmp_path / "source"
    source.mkdir()
    (source / "tiny.py").write_text("version = 'from the folder'\n")
    (source / "backend.py").write_text(BACKEND)
    (source / "pyproject.toml").write_text(
        "[project]\nname = 'tiny'\nversion = '9'\n[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    project = tmp_path / "project"
    python = virtual_environment(project / ".venv", pip=kind == "pip")
    if kind == "uv, a project":
        (project / "pyproject.toml").write_text(PROJECT)
    environment = offline(wheels) | (
        {"PATH": without_uv(tmp_path / "bin")} if kind == "pip" else {}
    )
    async with agent("--python", str(python), cwd=project, env=environment) as a:
        (project / "folder").mkdir()
        await a.eval("%cd folder")
        await packaged(a, "develop", "../../source")
        assert await version(a) == "'from the folder'"
        wheels.rename(tmp_path / "gone")
        wheels.mkdir()
        assert (await a.call("pkg", action="free", packages=["tiny"])).is_error
        assert await version(a) == "'from the folder'"
        wheels.rmdir()
        (tmp_path / "gone").rename(wheels)
        await packaged(a, "free", "tiny")
        assert await version(a) == "'1.0'"


async def test_log_for_a_terminal_has_colours_and_no_other_control_sequence(home: Path) -> None:
    path = home / ".mahtab" / "logs" / "repl.log"
    async with agent() as a:
        await a.text("log_viewer", mode="auto")
        await a.eval("print('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07'); 1/0")
        log = path.read_text()
        assert "\x1b[31mred\x1b[0m" in log
        assert COLOUR.search(log.partition("red")[0])
        assert "\x1b" not in COLOUR.sub("", log)
        assert "]0;title" in log

        await a.text("log_viewer", mode="file")
        await a.eval("2")
        assert "\x1b" not in path.read_text()[len(log) :]


async def test_log_contains_the_evaluated_code(home: Path) -> None:
    path = home / ".mahtab" / "logs" / "repl.log"
    async with agent() as a:
        assert f"written to {path}. To follow it: tail -f {path}" in await a.text(
            "log_viewer", mode="file"
        )
        await a.eval("print('\\x1b[31mred\\x1b[0m'); 1/0")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        log = path.read_text()
        assert "In [1] · mcp" in log
        assert "red" in log.partition("1/0\n")[2]
        assert "ZeroDivisionError" in log
        assert "\x1b" not in log
        await a.eval("print('printed'); 'val' + 'ue'")
        log = path.read_text()
        assert log.endswith("\nprint('printed'); 'val' + 'ue'\nprinted\n'value'\n")
        await a.text("log_viewer", mode="off")
        await a.eval("3")
        assert path.read_text() == log


async def test_answers_are_plain_text_in_its_final_form() -> None:
    async with agent() as a:
        assert await a.eval("print('\\x1b[31mred\\x1b[0m\\x1b[6n', end=''); 7") == "7\nred␛[6n"
        output = await a.eval("for done in range(1_000): print(f'\\r{done / 10:.1f} %', end='')")
        assert output.startswith("99.9 %\n[Text that was written over in its line is left out.]\n")


async def test_wrong_setting_gives_one_sentence() -> None:
    done = run_python("-m", "mahtab_tui", "mcp", env={**os.environ, "MAHTAB_APPROVAL": "never"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "MAHTAB_APPROVAL" in done.stderr


async def test_package_manager_output_is_reported_live(tmp_path: Path) -> None:
    code = "import os, time\nprint('coll', end='', flush=True)\ntime.sleep(0.05)\nprint('ects', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"
    (tmp_path / "pytest.py").write_text(code)
    async with agent(cwd=tmp_path) as a, anyio.create_task_group() as group:
        group.start_soon(lambda: a.call("pkg", action="test", packages=[]))
        await until(lambda: "collects" in a.reports)
        assert "coll" not in a.reports
        (tmp_path / "go").touch()
