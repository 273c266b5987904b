"""An editor drives sessions over the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest
from acp import RequestError, schema

from mahtab_tui.acp.cell_card import MAX_HEAD_CHARS, MAX_TAIL_CHARS
from tests.acp.editor import SilentEditor, call, editor, send, text_of
from tests.waiting import wait_for
from tests.warm import command, piped

PICTURE = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
).decode()
PLAIN_SERVER = Path(__file__).parents[1] / "servers" / "plain.py"
COUNT = "how many items has items?"


async def test_a_cell_is_a_tool_call_with_code_output_and_changes(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        assert await user.ask("/run items = [1, 2]\nprint('printed')\nlen(items)") == "end_turn"
        assert list(user.calls) == ["cell-1"]
        starts = [u for u in user.updates if isinstance(u, schema.ToolCallStart)]
        assert [start.status for start in starts] == ["in_progress"]
        assert (user.cell.status, user.cell.kind) == ("completed", "execute")
        assert user.cell.title == "In 1: items = [1, 2]"
        assert text_of(user.cell) == (
            "```python\nitems = [1, 2]\nprint('printed')\nlen(items)\n```\n"
            "```text\nprinted\n2\n```\n[+items list 2 items]"
        )

        await user.ask("/run 1/0")
        assert user.cell.status == "failed"
        assert "ZeroDivisionError" in text_of(user.cell)


async def test_a_question_waits_for_permission_of_its_code(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run items = [1, 2, 3]")
        user.answers = ["skip", "run", "all", "all"]
        # The demo model gives up when its code was skipped.
        assert "no rule for this question" in await user.failure(COUNT)
        assert user.cell.status == "failed"
        assert "The code did not run." in text_of(user.cell)

        assert await user.ask(COUNT) == "end_turn"
        assert "3 items" in text_of(user.cell)
        assert "items has 3 items" in user.said
        # Approval and cell are the same tool call.
        assert [call.tool_call_id for call in user.questions] == ["1.0.0", "2.0.0"]
        assert list(user.calls) == ["2.0.0"]

        await user.ask(COUNT)
        await user.ask(COUNT)
        assert len(user.questions) == 3
        # The editor is told what the user's answer has changed.
        changed = [u for u in user.all_updates if isinstance(u, schema.ConfigOptionUpdate)]
        assert [update.config_options[0].current_value for update in changed] == ["auto"]
        options = await user.agent.set_config_option("approval", user.session, "ask")
        assert options.config_options[0].current_value == "ask"
        user.answers = [""]
        assert await user.ask(COUNT) == "end_turn"
        assert (len(user.questions), user.cell.status) == (4, "failed")


async def test_input_is_a_form_or_an_error(project: Path) -> None:
    code = "/run name = input('name? ')\nname"
    async with editor() as user:
        await user.begin()
        user.form_lines = ["Ada", "not asked"]
        await user.ask(code)
        assert "'Ada'" in text_of(user.cell)
        await user.ask("/run import getpass; getpass.getpass()")
        assert (user.cell.status, user.form_lines) == ("failed", ["not asked"])
    async with editor(forms=False) as user:
        await user.begin()
        await user.ask(code)
        assert "EOFError" in text_of(user.cell)


async def test_running_cell_shows_its_output_and_can_be_stopped(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        code = (
            "/run import os, time\nprint('begun')\nwhile not os.path.exists('go'): time.sleep(0.01)"
        )
        asking = asyncio.create_task(user.ask(code))
        await user.until(lambda: "begun\n```" in text_of(user.cell) if user.calls else None)
        assert user.cell.status == "in_progress"
        with pytest.raises(RequestError, match="wait for its end"):
            await user.agent.prompt(user.session, [schema.TextContentBlock(type="text", text="1")])
        await user.agent.cancel(user.session)
        assert await asking == "cancelled"
        assert user.cell.status == "failed"
        assert await user.ask("/run 'still there'") == "end_turn"


async def test_stop_reaches_a_cell_that_has_not_begun(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run import time")
        asking = asyncio.create_task(user.ask("/run for _ in range(500): time.sleep(0.01)"))
        await asyncio.sleep(0)
        await user.agent.cancel(user.session)
        assert await asking == "cancelled"
        assert user.cell.status == "failed"


async def test_a_cell_ends_and_its_variables_are_saved_when_its_editor_goes_away(
    project: Path,
) -> None:
    async with editor() as user:
        await user.begin()
        session = user.session
        code = "/run import time\nkept = 7\nprint('kept')\nfor _ in range(6_000): time.sleep(0.01)"
        asking = asyncio.create_task(user.ask(code))
        await user.until(lambda: "kept\n```" in text_of(user.cell) if user.calls else None)
    asking.cancel()
    async with editor() as user:
        await user.agent.load_session(os.getcwd(), session, mcp_servers=[])
        assert "KeyboardInterrupt" in text_of(user.cell)
        user.session = session
        await user.ask("/run kept")
        assert "7" in text_of(user.cell)


async def test_long_output_loses_its_middle_and_pictures_come_along(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run print('head', 'x' * 1_000_000, 'tail')")
        text = text_of(user.cell)
        assert "characters left out" in text
        assert "head" in text
        assert "tail" in text
        assert len(text) < MAX_HEAD_CHARS + MAX_TAIL_CHARS + 1_000
        await user.ask(
            "/run from IPython.display import Image, display\nimport base64\n"
            f"display(Image(base64.b64decode('{PICTURE}')))"
        )
        pictures = [
            item.content
            for item in user.cell.content
            if isinstance(item.content, schema.ImageContentBlock)
        ]
        assert [picture.data for picture in pictures] == [PICTURE]


async def test_server_of_the_editor_that_does_not_start_is_named(project: Path) -> None:
    broken = schema.McpServerStdio(
        name="broken", command=sys.executable, args=["-c", "raise SystemExit(3)"], env=[]
    )
    plain = schema.McpServerStdio(
        name="plain", command=sys.executable, args=[str(PLAIN_SERVER)], env=[]
    )
    async with editor() as user:
        await user.begin(broken, plain)
        await user.until(lambda: "The server broken could not be started" in user.said)
        await user.ask("/run plain")
        assert user.cell.status == "completed"
        assert "plain could not" not in user.said


@pytest.mark.parametrize(
    "question", ["/rewind In 1", COUNT, "/run input('name? ')"], ids=["rewind", "approval", "input"]
)
async def test_stop_takes_back_what_the_user_was_asked(project: Path, question: str) -> None:
    user = SilentEditor()
    async with editor(user):
        await user.begin()
        await user.ask("/run items = [1]")
        asking = asyncio.create_task(user.ask(question))
        await user.until(lambda: user.questions or user.forms)
        await user.agent.cancel(user.session)
        assert await asking == "cancelled"
        assert {call.status for call in user.calls.values()} <= {"completed", "failed"}
        await user.ask("/run items")
        assert "[1]" in text_of(user.cell)


async def test_stop_during_the_preview_of_a_rewind_asks_nothing(project: Path) -> None:
    user = SilentEditor()
    async with editor(user):
        await user.begin()
        await user.ask("/run items = [1]")
        asking = asyncio.create_task(user.ask("/rewind In 1"))
        await asyncio.sleep(0)
        await user.agent.cancel(user.session)
        assert await asyncio.wait_for(asking, 30) == "cancelled"
        assert user.questions == []
        await user.ask("/run items")
        assert "[1]" in text_of(user.cell)


async def test_hostile_output_reaches_the_editor_as_text(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run print('\\x1b]0;title\\x07 ```\\n# heading\\n```'); exit")
        text = text_of(user.cell)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "````text\n" in text


async def test_sessions_go_on_in_another_process_with_variables_and_conversation(
    project: Path,
) -> None:
    async with editor() as user:
        await user.begin()
        user.answers = ["run"]
        await user.ask("/run items = [1, 2, 3]")
        await user.ask(COUNT)
        session = user.session
    async with editor() as user:
        listed = await user.agent.list_sessions(cwd=os.getcwd())
        assert [row.session_id for row in listed.sessions] == [session]
        assert listed.sessions[0].title == COUNT
        await user.agent.load_session(os.getcwd(), session, mcp_servers=[])
        assert user.asked == COUNT
        assert list(user.calls) == ["cell-1", "1.0.0"]
        assert {call.status for call in user.calls.values()} == {"completed"}
        assert "items has 3 items" in user.said
        user.session = session
        await user.ask("/run items")
        assert "[1, 2, 3]" in text_of(user.cell)
        await user.agent.close_session(session)
        assert "is not open" in await user.failure("/run 1")

        await user.agent.resume_session(session_id=session, cwd=os.getcwd(), mcp_servers=[])
        user.updates.clear()
        await user.ask("/run items")
        assert list(user.calls) == ["cell-4"]


async def test_a_session_that_is_loaded_twice_at_once_is_opened_once(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run items = [1, 2, 3]")
        session = user.session
    async with editor() as user:
        loads = [user.agent.resume_session(session_id=session, cwd=os.getcwd()) for _ in range(2)]
        await asyncio.gather(*loads)
        user.session = session
        await user.ask("/run items")
        assert "[1, 2, 3]" in text_of(user.cell)


async def test_two_loads_at_once_tell_the_past_one_after_the_other(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        for number in range(4):
            await user.ask(f"/run {number}")
        session = user.session
    async with editor() as user:
        loads = [
            user.agent.load_session(os.getcwd(), session_id=session, mcp_servers=[])
            for _ in range(2)
        ]
        await asyncio.gather(*loads)
        cells = [
            update.tool_call_id
            for update in user.all_updates
            if isinstance(update, schema.ToolCallStart)
        ]
        assert cells == 2 * [f"cell-{number}" for number in range(1, 5)]


async def test_a_session_is_known_by_its_whole_id(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run 1")
        with pytest.raises(RequestError, match="no session with the ID"):
            await user.agent.load_session(os.getcwd(), user.session[:4], mcp_servers=[])
        for cursor in ("x", "-1", "9" * 5_000):
            with pytest.raises(RequestError, match="not a cursor"):
                await user.agent.list_sessions(cursor=cursor)
        listed = await user.agent.list_sessions()
        assert datetime.fromisoformat(listed.sessions[0].updated_at).tzinfo == UTC


async def test_a_copy_has_the_namespace_and_goes_its_own_way(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run items = [1, 2, 3]")
        original = user.session
        copy = await user.agent.fork_session(original, os.getcwd(), mcp_servers=[])
        user.session = copy.session_id
        await user.ask("/run items.append(4); items")
        assert "[1, 2, 3, 4]" in text_of(user.cell)
        user.session = original
        await user.ask("/run items")
        assert "[1, 2, 3]" in text_of(user.cell)
    async with editor(MAHTAB_KEEP_NAMESPACE="false") as user:
        await user.begin()
        await user.ask("/run items = [1, 2, 3]")
        with pytest.raises(RequestError, match="a copy would not have them"):
            await user.agent.fork_session(user.session, os.getcwd(), mcp_servers=[])


async def test_rewind_shows_what_goes_back_and_takes_the_namespace_along(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run items = [1]")
        await user.ask("/run items.append(2)")
        user.answers = ["keep", "rewind"]
        await user.ask("/rewind In 2")
        assert "items" in text_of(user.questions[0])
        assert user.cell.status == "completed"
        assert user.said == "Nothing was changed."
        await user.ask("/run items")
        assert "[1, 2]" in text_of(user.cell)
        await user.ask("/rewind In 2")
        assert "before cell 2 ran" in user.said
        await user.ask("/run items")
        assert "[1]" in text_of(user.cell)

        answer = await user.agent.ext_method(
            "mahtab/rewind", {"sessionId": user.session, "point": "In 1"}
        )
        assert "Back to before cell 1 would go" in answer["text"]
        await user.ask("/run items")
        assert "[1]" in text_of(user.cell)
        await user.agent.ext_method(
            "mahtab/rewind", {"sessionId": user.session, "point": "In 1", "dryRun": False}
        )
        await user.ask("/run 'items' in globals()")
        assert "False" in text_of(user.cell)


async def test_commands_of_an_editor(project: Path) -> None:
    async with editor() as user:
        await user.begin()

        def offered() -> set[str]:
            return {
                command.name
                for update in user.updates
                if isinstance(update, schema.AvailableCommandsUpdate)
                for command in update.available_commands
            }

        assert {"run", "rewind", "undo", "export"} <= await user.until(offered)
        await user.ask("/vars")
        assert user.said == "There are no variables."
        await user.ask("/undo")
        assert user.said == "There is nothing to undo."
        await user.ask("/run")
        assert user.said == "Type the code after /run."
        await user.ask("/run items = [1]")
        await user.ask("/vars")
        assert "| `items` | list | 1 item |" in user.said
        await user.ask("/undo")
        assert "Cell 1 was undone" in user.said
        await user.ask("/redo")
        assert "redone" in user.said
        await user.ask("/points")
        assert "- cell 1 (you): items = [1]" in user.said
        await user.ask("/undo seven")
        assert user.said == "seven is not the number of a cell."
        await user.ask(f"/undo {'7' * 5_000}")
        assert user.said.endswith("… is not the number of a cell.")
        await user.ask("/run\n'begins on the next line'")
        assert "begins on the next line" in text_of(user.cell)
        await user.ask("/export absent/session.md")
        assert "cannot be written" in user.said
        await user.ask("/export session.doc")
        assert "extension sets its format" in user.said
        await user.ask("/compact")
        assert "Nothing was summarised" in user.said


async def test_files_and_pictures_come_with_a_question(project: Path) -> None:
    Path("notes.txt").write_text("from the file")
    text = schema.TextResourceContents(uri="file:///elsewhere/draft.txt", text="not saved yet")
    async with editor() as user:
        await user.begin()
        await user.ask(
            "which variables are there?",
            schema.ResourceContentBlock(
                type="resource_link", name="notes", uri=(project / "notes.txt").as_uri()
            ),
            schema.EmbeddedResourceContentBlock(type="resource", resource=text),
            schema.ImageContentBlock(type="image", mime_type="image/png", data=PICTURE),
        )
        await user.ask("/export session.md")
        assert "Exported" in user.said
        session = Path("session.md").read_text()
        assert "notes.txt" in session
        assert "draft.txt" in session
        assert "picture.png" in session
        for block in (
            schema.ImageContentBlock(type="image", mime_type="image/png", data="not base64!"),
            schema.ResourceContentBlock(type="resource_link", name="x", uri="http://[::1"),
            *(
                schema.EmbeddedResourceContentBlock(
                    type="resource", resource=schema.TextResourceContents(uri=uri, text="")
                )
                for uri in ("file:///a%00b", f"file:///{'a' * 300}", "file:///folder/..")
            ),
        ):
            with pytest.raises(RequestError, match="cannot be used"):
                await user.agent.prompt(user.session, [block])


async def test_failures_are_answered_with_a_sentence(project: Path, tmp_path: Path) -> None:
    async with editor() as user:
        with pytest.raises(RequestError, match="no session whose ID begins with 'nothing'"):
            await user.agent.load_session(os.getcwd(), "nothing", mcp_servers=[])
        for folder, reason in (
            (str(tmp_path / "absent"), "cannot be used: No such file or directory"),
            (f"{tmp_path}\0", "cannot be used: embedded null byte"),
            (".", "has no absolute path"),
        ):
            with pytest.raises(RequestError, match=reason):
                await user.agent.new_session(folder, mcp_servers=[])
        await user.begin()
        assert "no rule for this question" in await user.failure("nonsense")
        # It is not said a second time.
        assert user.said == ""
        (tmp_path / "other").mkdir()
        with pytest.raises(RequestError, match="start another one"):
            await user.agent.new_session(str(tmp_path / "other"), mcp_servers=[])
    async with editor() as user:
        folders = [os.getcwd(), str(tmp_path / "other")]
        answers = await asyncio.gather(
            *(user.agent.new_session(folder, mcp_servers=[]) for folder in folders),
            return_exceptions=True,
        )
        assert "start another one" in str(answers[1])


async def test_untrusted_settings_of_a_project_do_not_count(project: Path) -> None:
    Path(".mahtab").mkdir()
    Path(".mahtab", "config.toml").write_text('approval = "auto"\n')
    async with editor() as user:
        await user.begin()
        # An editor ignores what is said in a session that it does not know yet.
        assert user.updates == []
        assert "trust" in await user.until(lambda: user.said)
        response = await user.agent.fork_session(user.session, os.getcwd(), mcp_servers=[])
        assert response.config_options[0].current_value == "ask"


async def test_session_of_an_editor_can_be_watched_while_it_runs(project: Path) -> None:
    async with editor() as user:
        await user.begin()
        await user.ask("/run seen_by_the_watcher = 1")
        listed = await asyncio.to_thread(
            subprocess.run, [*command(), "sessions"], capture_output=True, text=True, check=True
        )
        assert listed.stdout.startswith("Running")
        assert project.name in listed.stdout


def test_garbage_is_answered_and_a_closed_editor_ends_the_process(project: Path) -> None:
    with piped("acp") as program:
        program.stdin.write("nonsense\n")
        program.stdin.buffer.write(b"\xff\xfe\n")
        send(program, "session/bogus")
        assert json.loads(program.stdout.readline())["error"]["code"] == -32601
        program.stdin.close()
        assert program.wait() == 0


async def test_what_a_thread_prints_after_its_cell_reaches_the_editor(project: Path) -> None:
    code = (
        "import os, threading, time\n"
        "def wait_and_print():\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    print('much later')\n"
        "threading.Thread(target=wait_and_print).start()"
    )
    async with editor() as user:
        await user.begin()
        await user.ask(f"/run {code}")
        (project / "go").touch()
        await user.until(lambda: "much later\n```" in text_of(user.cell))


def test_an_editor_that_does_not_read_loses_nothing(project: Path) -> None:
    with piped("acp") as program:
        call(program, "initialize", protocolVersion=1)
        session = call(program, "session/new", cwd=os.getcwd(), mcpServers=[])["sessionId"]
        code = "for number in range(100_000): print(number)\nopen('end', 'w').close()"
        prompt = [{"type": "text", "text": f"/run {code}"}]
        send(program, "session/prompt", sessionId=session, prompt=prompt)
        wait_for((project / "end").exists)
        program.stdin.close()
        assert program.wait() == 0
    with piped("acp") as program:
        call(program, "initialize", protocolVersion=1)
        send(program, "session/load", sessionId=session, cwd=os.getcwd(), mcpServers=[])
        while '"completed"' not in (line := program.stdout.readline()):
            pass
        assert "99998\\n99999" in line


@pytest.mark.skipif(
    not version("agent-client-protocol").startswith("0."),
    reason="version 1 of the library ignores it",
)
def test_what_is_not_a_message_ends_the_process_with_a_sentence(project: Path) -> None:
    done = subprocess.run(
        [*command(), "acp"], input=b"5\n", capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert b"The editor has sent what is not a message." in done.stderr


@pytest.mark.parametrize("kind", ["file", "terminal", "nothing"])
def test_without_an_editor_a_sentence_says_who_starts_it(project: Path, kind: str) -> None:
    terminal, other_end = os.openpty()
    Path("input").touch()
    descriptors = {
        "file": os.open("input", os.O_RDONLY),
        "terminal": other_end,
        "nothing": subprocess.DEVNULL,
    }
    done = subprocess.run(
        [*command(), "acp"],
        stdin=descriptors[kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    for descriptor in (terminal, other_end, descriptors["file"]):
        os.close(descriptor)
    assert done.returncode != 0
    assert "An editor starts this command" in done.stderr


async def test_a_signal_ends_the_session_and_its_variables_are_saved(project: Path) -> None:
    with piped("acp") as program:
        call(program, "initialize", protocolVersion=1)
        session = call(program, "session/new", cwd=os.getcwd(), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "/run items = [1, 2]"}]
        call(program, "session/prompt", sessionId=session, prompt=prompt)
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait() == -signal.SIGTERM
    async with editor() as user:
        await user.agent.load_session(os.getcwd(), session, mcp_servers=[])
        user.session = session
        await user.ask("/run items")
        assert "[1, 2]" in text_of(user.cell)


async def test_cell_of_a_killed_process_has_failed_when_it_is_told_again(project: Path) -> None:
    with piped("acp") as program:
        call(program, "initialize", protocolVersion=1)
        session = call(program, "session/new", cwd=os.getcwd(), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "/run import time; time.sleep(60)"}]
        send(program, "session/prompt", sessionId=session, prompt=prompt)
        while '"in_progress"' not in program.stdout.readline():
            pass
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    async with editor() as user:
        await user.agent.load_session(os.getcwd(), session, mcp_servers=[])
        assert user.cell.status == "failed"
        assert "The session ended before this did." in text_of(user.cell)
