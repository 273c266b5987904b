"""The tool eval."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.mcp.clients import agent, text_of, until

PID = "import os; os.getpid()"


async def test_state_persists_and_the_answer_is_in_order() -> None:
    async with agent() as a:
        assert await a.eval("x = 5") == "[+x int 5]"
        assert await a.eval("print('printed'); x + 1") == "6\nprinted"
        assert await a.eval("None") == "(no value, no output)"
        assert "EOFError" in await a.eval("input('name? ')")


async def test_an_error_comes_with_its_traceback_after_the_output() -> None:
    async with agent() as a:
        answer = await a.call("eval", code="print('before')\n1/0")
        text = text_of(answer)
        assert answer.is_error
        assert text.index("before\n") < text.index("ZeroDivisionError")
        output = await a.eval("def f(n): g(n + 1)\ndef g(n): f(n + 1)\nf(0)")
        assert "RecursionError" in output
        assert output.count("\n") < 40
        assert "lines left out" in output


async def test_nothing_but_the_protocol_reaches_stdout() -> None:
    hostile = """
import os, subprocess, sys
print('to fd 1')
os.write(1, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\\n' + bytes(range(256)))
subprocess.run("echo from a child; echo and its stderr >&2", shell=True)
sys.__stdout__.buffer.write(b"\\xff\\xfe\\n"); sys.__stdout__.flush()
sys.stdout = None
"""
    async with agent() as a:
        result = await a.call("eval", code=hostile)
        assert not result.is_error
        assert "from a child" in text_of(result)
        # Random bytes may overwrite printed text, so only success is checked.
        for code in (
            "subprocess.run('head -c 100000 /dev/urandom', shell=True)",
            "'\\ud800 \\x00 \\x1b]52;c;aaaa\\x07'",
        ):
            assert not (await a.call("eval", code=code)).is_error
        assert await a.eval("1 + 1") == "2"


async def test_huge_output_is_cut_and_counted() -> None:
    async with agent() as a:
        output = await a.eval("print('x' * 3_000_000)", max_output=1000)
        assert f"… {3_000_001 - 1000:,} characters left out …" in output
        assert len(output) < 1100


async def test_timed_out_cell_is_interrupted_and_its_output_returned() -> None:
    async with agent() as a:
        code = "y = 1\nprint('so far')\nimport time\nwhile True: time.sleep(0.01)"
        ending = "the code was interrupted. Variables are as it left them.\nso far\n"
        output = await a.eval(code, timeout_s=0.5)
        assert output.startswith(f"Timed out after 0.5 s: {ending}")
        assert await a.eval("y") == "1"


@pytest.mark.parametrize(
    ("on_interrupt", "ending"),
    [
        ("print('caught')", "interrupted, and then ended by itself.\ncaught"),
        ("os._exit(9)", "interrupted. The kernel died: it exited with code 9."),
    ],
)
async def test_end_of_a_cell_after_its_interrupt_is_reported(
    on_interrupt: str, ending: str
) -> None:
    code = (
        f"import os, time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    {on_interrupt}"
    )
    async with agent() as a:
        result = await a.call("eval", code=code, timeout_s=0.3)
        assert result.is_error
        assert text_of(result).startswith(f"Timed out after 0.3 s: the code was {ending}")


async def test_unresponsive_cell_is_killed() -> None:
    stubborn = "print('so far')\nimport signal\nsignal.signal(signal.SIGINT, lambda *signal: None)\nwhile True: pass"
    async with agent() as a:
        pid_before = await a.value(PID)
        result = await a.call("eval", code=stubborn, timeout_s=0.3)
        ending = "the code did not end within 2 s after its interrupt, so the worker was killed."
        assert result.is_error
        assert text_of(result).startswith(f"Timed out after 0.3 s: {ending}")
        assert text_of(result).endswith("\nso far")
        assert "NameError" in await a.eval("os")
        assert await a.value(PID) != pid_before


async def test_dead_worker_is_reported_and_replaced_with_saved_variables(home: Path) -> None:
    async with agent() as a:
        pid_before = await a.value(PID)
        await a.eval("rows = [1, 2, 3]")
        files = ".mahtab/namespaces/session-*/index.json"
        await until(lambda: any(b"rows" in file.read_bytes() for file in home.glob(files)))
        code = "print('last', flush=True)\nimport os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        result = await a.call("eval", code=code)
        assert result.is_error
        assert "SIGSEGV" in text_of(result)
        assert "Only saved variables come back" in text_of(result)
        pid_after = await a.value(PID)
        assert pid_after != pid_before
        assert f"worker {pid_after} ·" in await a.text("info")
        assert await a.value("rows") == "[1, 2, 3]"


async def test_names_cannot_break_the_protocol_or_reach_a_terminal() -> None:
    async with agent() as a:
        code = "for name in ('\\ud800x', '\\x1b]52;c;aaaa\\x07evil\\n', 'y' * 300_000): globals()[name] = 1"
        changes = f"⟨U+D800⟩x int 1, +␛]52;c;aaaa␇evil  int 1, +{'y' * 199}… int 1]"
        assert (await a.eval(code)).partition(", +")[2] == changes
        listed = await a.text("info")
        assert "\n  ⟨U+D800⟩x: int 1\n" in listed
        assert "\x1b" not in listed
        assert len(listed) < 2_000


async def test_answer_is_bounded_for_any_code() -> None:
    async with agent() as a:
        output = await a.eval("for number in range(2_000): globals()[f'v{number}'] = number")
        assert output.endswith(", +v18 int 18, and 1,981 more]")
        assert len(output) < 400
        listed = await a.text("info")
        assert listed.endswith("  … and 1,801 more")
        assert len(listed) < 5_000
        output = await a.eval("raise Exception('x' * 3_000_000)", max_output=10)
        assert len(output) < 4_100
        assert "characters left out" in output


async def test_cancelling_interrupts_the_cell_and_preserves_the_state() -> None:
    async with agent() as a:
        await a.eval("seen = []")
        code = "import time\nprint('begun', flush=True)\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    seen.append('interrupted'); raise"
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, code)
            await until(lambda: any("begun" in sentence for sentence in a.reports))
            group.cancel_scope.cancel()
        assert await a.eval("seen") == "['interrupted']"


async def test_cells_of_parallel_calls_run_one_after_another() -> None:
    async with agent() as a:
        await a.eval("log = []")

        async def one(number: int) -> None:
            code = f"log.append(({number}, 'in')); import time; time.sleep(0.01); log.append(({number}, 'out')); {number}"
            assert await a.value(code) == str(number)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        assert await a.eval("all(log[i][0] == log[i + 1][0] for i in range(0, 16, 2))") == "True"


@pytest.mark.sample(1)
@pytest.mark.parametrize("value", ["Picture()", "[Picture()][0]"])
async def test_value_with_a_picture_is_returned_as_image_content(value: str) -> None:
    png = "b'\\x89PNG\\r\\n\\x1a\\n' + b'data'"
    code = f"class Picture:\n    def _repr_png_(self): return {png}\n{value}"
    async with agent() as a:
        answer = await a.call("eval", code=code)
        assert [block.type for block in answer.content] == ["text", "image"]
        names = "sorted(name for name in globals() if not name.startswith('_'))"
        assert await a.eval(names) == "['Picture']"


async def test_wrong_arguments_and_hidden_characters_are_refused() -> None:
    async with agent() as a:
        assert "timeout_s" in await a.text("eval", code="1", timeout_s=-1)
        assert "timeout" in await a.text("eval", code="1", timeout=1)
        assert "There is no tool 'evil'" in await a.text("evil")
        answer = await a.call("eval", code="x = 1 #ok\rhidden = 1")
        assert answer.is_error
        assert text_of(answer).startswith(
            "The code was not run. Line 1 contains the character U+000D"
        )
        assert await a.eval("'hidden' in globals()") == "False"


async def test_figures_are_returned_as_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)
    async with agent() as a:
        for code in (
            "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);",
            "plt.plot([3, 1]); plt.show()",
            "%matplotlib inline\nplt.plot([2]);",
        ):
            result = await a.call("eval", code=code)
            assert [part.type for part in result.content].count("image") == 1, code


async def test_last_line_reaches_progress_without_control_sequences() -> None:
    async with agent() as a:
        await a.eval("import time\nprint('\\x1b[2Jcleared', flush=True)\ntime.sleep(1.4)")
        assert any(sentence.endswith("last line: ␛[2Jcleared") for sentence in a.reports)
