"""The tool eval, over real STDIO."""

from __future__ import annotations

import anyio
import pytest

from tests.mcp.clients import agent, text_of


async def test_state_is_kept_and_the_answer_is_in_order() -> None:
    async with agent(MAHTAB_OUTPUT_FORMAT="plain") as a:
        assert "+x int 5" in await a.text("eval", code="x = 5")
        answer = await a.call("eval", code="print('printed'); x + 1")
        assert text_of(answer) == "6\nprinted"
        assert answer.structured_content is not None
        assert (answer.structured_content["value"], answer.structured_content["output"]) == ("6", "printed\n")


async def test_an_error_comes_with_its_traceback_after_the_output() -> None:
    async with agent() as a:
        answer = await a.call("eval", code="print('before')\n1/0")
        text = text_of(answer)
        assert answer.is_error
        assert text.index("before\n") < text.index("ZeroDivisionError")
        told = await a.eval("def f(n): g(n + 1)\ndef g(n): f(n + 1)\nf(0)")
        assert told["status"] == "error"
        assert "RecursionError" in told["error"]
        assert told["error"].count("\n") < 40
        assert "lines left out" in told["error"]


async def test_nothing_but_the_protocol_reaches_stdout() -> None:
    hostile = """
import os, subprocess, sys
print('to fd 1')
os.write(1, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\\n' + bytes(range(256)))
subprocess.run("echo from a child; echo and its stderr >&2; head -c 100000 /dev/urandom", shell=True)
sys.__stdout__.buffer.write(b"\\xff\\xfe\\n"); sys.__stdout__.flush()
sys.stdout = None
"""
    async with agent() as a:
        told = await a.eval(hostile)
        assert told["status"] == "ok"
        assert "from a child" in told["output"]
        assert (await a.eval("'\\ud800 \\x00 \\x1b]52;c;aaaa\\x07'"))["status"] == "ok"
        assert (await a.eval("1 + 1"))["value"] == "2"


async def test_huge_output_is_cut_and_counted() -> None:
    async with agent() as a:
        told = await a.eval("print('x' * 3_000_000)", max_output=1000)
        assert told["left_out"] == 3_000_001 - 1000
        assert len(told["output"]) < 1100


async def test_a_cell_at_the_end_of_its_time_is_interrupted_and_its_output_is_told() -> None:
    async with agent() as a:
        told = await a.eval("y = 1\nprint('so far')\nimport time\nwhile True: time.sleep(0.01)", timeout_s=0.5)
        assert (told["status"], told["timed_out"]) == ("interrupted", True)
        assert told["output"] == "so far\n"
        assert told["note"].startswith("Timed out after 0.5 s: the code was interrupted.")
        assert (await a.eval("y"))["value"] == "1"


async def test_a_cell_that_does_not_react_is_killed() -> None:
    stubborn = "print('so far')\nimport signal\nsignal.signal(signal.SIGINT, lambda *signal: None)\nwhile True: pass"
    async with agent() as a:
        before = await a.eval("z = 1")
        told = await a.eval(stubborn, timeout_s=0.3)
        assert (told["status"], told["timed_out"]) == ("killed", True)
        assert "did not end within 2 s" in told["note"]
        assert told["output"] == "so far\n"
        after = await a.eval("z")
        assert "NameError" in after["error"]
        assert after["worker"] != before["worker"]


async def test_a_cell_that_ends_by_itself_after_its_interrupt_is_told_so() -> None:
    async with agent() as a:
        told = await a.eval("import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')", timeout_s=0.3)
        assert (told["status"], told["timed_out"], told["output"]) == ("ok", True, "caught\n")
        assert "ended by itself" in told["note"]


async def test_a_worker_that_dies_is_told_and_replaced() -> None:
    async with agent() as a:
        before = await a.eval("1")
        told = await a.eval("print('last', flush=True)\nimport os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert told["status"] == "died"
        assert "SIGSEGV" in told["note"]
        assert told["worker"] == before["worker"]
        after = await a.eval("import os; os.getpid()")
        assert after["value"] == str(after["worker"]) != str(before["worker"])


async def test_a_worker_that_dies_of_its_interrupt_has_timed_out_too() -> None:
    async with agent() as a:
        told = await a.eval("import os, signal, time\nsignal.signal(signal.SIGINT, lambda *signal: os._exit(9))\ntime.sleep(600)", timeout_s=0.3)
        assert (told["status"], told["timed_out"]) == ("died", True)
        assert told["note"].startswith("Timed out after 0.3 s: the code was interrupted. The kernel died: it exited with code 9.")


async def test_names_cannot_break_the_protocol_or_reach_a_terminal() -> None:
    async with agent() as a:
        told = await a.call("eval", code="for name in ('\\ud800x', '\\x1b]52;c;aaaa\\x07evil\\n', 'y' * 300_000): globals()[name] = 1")
        assert told.structured_content is not None
        names = [change["name"] for change in told.structured_content["changes"]]
        assert names == ["name", "⟨U+D800⟩x", "␛]52;c;aaaa␇evil ", "y" * 199 + "…"]
        assert "\x1b" not in text_of(told)
        listed = await a.call("info")
        assert listed.structured_content is not None
        assert "⟨U+D800⟩x" in [row["name"] for row in listed.structured_content["variables"]]
        assert "\x1b" not in text_of(listed)
        assert len(text_of(listed)) < 2_000


async def test_an_answer_is_bounded_whatever_the_code_makes() -> None:
    async with agent() as a:
        told = await a.eval("for number in range(2_000): globals()[f'v{number}'] = number")
        assert (len(told["changes"]), told["changes_left_out"]) == (500, 1_501)
        assert "and 1,981 more" in await a.text("eval", code="for number in range(2_000): globals()[f'w{number}'] = number")
        told = await a.eval("raise Exception('x' * 3_000_000)", max_output=10)
        assert len(told["error"]) < 4_100
        assert told["left_out"] > 2_900_000


async def test_what_is_printed_reaches_progress_without_control_sequences() -> None:
    sentences: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        sentences.append(message or "")

    async with agent() as a:
        await a.client.call_tool(
            "eval", {"code": "import time\nprint('\\x1b[2Jcleared', flush=True)\ntime.sleep(1.4)"}, progress_callback=on_progress
        )
    assert any(sentence.endswith("last line: ␛[2Jcleared") for sentence in sentences)


async def test_cancelling_interrupts_the_cell_and_keeps_the_state() -> None:
    async with agent() as a:
        await a.eval("seen = []")
        began = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if message and "begun" in message:
                began.set()

        code = "import time\nprint('begun', flush=True)\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    seen.append('interrupted'); raise"
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: a.client.call_tool("eval", {"code": code}, progress_callback=on_progress))
            await began.wait()
            group.cancel_scope.cancel()
        assert (await a.eval("seen"))["value"] == "['interrupted']"


async def test_long_cells_report_progress_with_their_last_line() -> None:
    sentences: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        sentences.append(message or "")

    async with agent() as a:
        await a.client.call_tool("eval", {"code": "import time\nprint('step 7', flush=True)\ntime.sleep(1.4)"}, progress_callback=on_progress)
    assert any("last line: step 7" in sentence for sentence in sentences)


async def test_cells_of_parallel_calls_run_one_after_the_other() -> None:
    async with agent() as a:
        await a.eval("log = []")

        async def one(number: int) -> None:
            told = await a.eval(f"log.append(({number}, 'in')); import time; time.sleep(0.01); log.append(({number}, 'out')); {number}")
            assert told["value"] == str(number)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        assert (await a.eval("all(log[i][0] == log[i + 1][0] for i in range(0, 16, 2))"))["value"] == "True"


async def test_input_has_nobody_to_ask() -> None:
    async with agent() as a:
        assert "RuntimeError" in (await a.eval("input('name? ')"))["error"]


@pytest.mark.parametrize("value", ["Picture()", "[Picture()][0]"])
async def test_a_value_that_knows_its_picture_comes_as_image_content(value: str) -> None:
    png = "b'\\x89PNG\\r\\n\\x1a\\n' + b'data'"
    async with agent() as a:
        answer = await a.call("eval", code=f"class Picture:\n    def _repr_png_(self): return {png}\n{value}")
        assert [block.type for block in answer.content] == ["text", "image"]
        assert (await a.eval("sorted(name for name in globals() if not name.startswith('_'))"))["value"] == "['Picture']"


async def test_arguments_that_do_not_fit_are_refused_with_a_sentence() -> None:
    async with agent() as a:
        assert "timeout_s" in await a.text("eval", code="1", timeout_s=-1)
        assert "timeout" in await a.text("eval", code="1", timeout=1)
        assert "There is no tool 'evil'" in await a.text("evil")


async def test_the_worker_that_ran_it_is_told() -> None:
    async with agent() as a:
        first = await a.eval("import os; os.getpid()")
        assert first["value"] == str(first["worker"])


async def test_code_in_which_something_may_hide_is_not_run() -> None:
    async with agent() as a:
        answer = await a.call("eval", code="x = 1 #ok\rhidden = 1")
        assert answer.is_error
        assert text_of(answer).startswith("It was not run. Line 1 holds the character U+000D")
        assert (await a.eval("'hidden' in globals()"))["value"] == "False"
