"""Code in a model's answer that runs in a search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.search.prompts import CUT_OFF_ANSWER, EMPTY_ANSWER, NO_CODE
from mahtab_tui.search.turns import AnswerCode, extract_code, last_answer

DOCSTRING = 'def f():\n    """\n    ```\n    x\n    ```\n    """'


@pytest.mark.parametrize(
    ("answer", "code", "cut"),
    [
        ("```python\nx = 1\n```", "x = 1", False),
        ("I look.\n```python\nx = 1\n```\n\n", "x = 1", False),
        ("```python\nx = 1\n```\nOutput:\n```\n42\n```\nSo it is 42.", "x = 1", True),
        ("```python\na\n```\n```python\nb\n```", "a", True),
        ("```json\n{}\n```\n```py\nprint(1)\n```", "print(1)", False),
        ("```python\nFINAL('never closed')", "FINAL('never closed')", False),
        (f"```python\n{DOCSTRING}\n```\nsaid after", DOCSTRING, True),
        ("<assistant-repl-in>x = 1</assistant-repl-in>", "x = 1", False),
        (
            "<assistant-repl-in>x = 1</assistant-repl-in>\n<assistant-repl-out>1</assistant-repl-out>",
            "x = 1",
            True,
        ),
        ("<assistant-repl-in>\n```python\nx = 1\n```\n</assistant-repl-in>", "x = 1", False),
        (
            "<assistant-chat>I look.</assistant-chat><assistant-repl-in>x = 1</assistant-repl-in>",
            "x = 1",
            False,
        ),
        ("<think>\n```python\nno()\n```\n</think>\n```python\nx = 1\n```", "x = 1", False),
        ("<think>\n```\nno()\n```\n</think>\n```\nprint(1)\n```", "print(1)", False),
        ("<think>no()</think>\nprint(1)", "print(1)", False),
        ('FINAL("x")', 'FINAL("x")', False),
        ("\nhits = grep('a')\nprint(hits)\n", "hits = grep('a')\nprint(hits)", False),
        (
            "import re\nfor m in re.finditer('a', context): print(m)",
            "import re\nfor m in re.finditer('a', context): print(m)",
            False,
        ),
        ("x: int = 3", "x: int = 3", False),
        ("```\nprint(1)\n```", "print(1)", False),
        ("```repl\nprint(1)\n```\nand then", "print(1)", True),
        ("```repl\na = 1\n```\n```python\nb\n```", "a = 1", True),
        ("```repl\nthis is not python\n```", "this is not python", False),
        ("```repl\nFINAL_VAR('never closed')", "FINAL_VAR('never closed')", False),
        ("~~~python\r\nx = 1\r\n~~~", "x = 1", False),
        ("```python\nthis is not python\n```", "this is not python", False),
    ],
)
def test_the_first_block_is_the_code(answer: str, code: str, cut: bool) -> None:
    assert extract_code(answer) == AnswerCode(code, cut)


@pytest.mark.parametrize(
    "answer",
    [
        "Hello",
        "not found",
        "yes, no",
        "42",
        "'a string'",
        "Answer: yes",
        "pass",
        "result",
        "a - b",
        "return answer",
        "The answer is FINAL('x').",
        "```\nERROR disk full\n```",
        "```\n42\n```",
        "```bash\nprint(1)\n```",
        "`FINAL(1)`",
        "(" * 5_000,
        "-" * 90_000 + "1",
        "x\0 = 1",
        "\ud800",
        "print(" + "1," * 60_000 + ")",
        "```python\n```",
        "</assistant-repl-in>",
        "<assistant-repl-in></assistant-repl-in>",
    ],
)
def test_prose_is_not_code(answer: str) -> None:
    assert extract_code(answer) == AnswerCode(None, feedback=NO_CODE)


@pytest.mark.parametrize("answer", ["", "  \n\t "])
def test_empty_answer_gives_feedback(answer: str) -> None:
    assert extract_code(answer) == AnswerCode(None, feedback=EMPTY_ANSWER)


@pytest.mark.parametrize(
    "answer", ["```python\nx = 1", "<assistant-repl-in>x = 1", "FINAL('x')", "I will"]
)
def test_truncated_answer_runs_no_unfinished_block(answer: str) -> None:
    assert extract_code(answer, ended=False) == AnswerCode(None, feedback=CUT_OFF_ANSWER)
    assert extract_code("```python\nx = 1\n```\nand so", ended=False) == AnswerCode(
        "x = 1", cut=True
    )


def test_strings_with_odd_escapes_raise_no_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    assert extract_code(r"print('\d')").code == r"print('\d')"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("answer", "words", "code"),
    [
        (" Three requests. ", "Three requests.", None),
        ("```python\nFINAL('Three.')\n```", "Three.", None),
        ("FINAL('Three.')", "Three.", None),
        ("```repl\nSUBMIT('Three.')\n```", "Three.", None),
        ("```python\nFINAL(len(x))\n```", "", "FINAL(len(x))"),
        ("FINAL(len(x))", "", "FINAL(len(x))"),
        ("Three.\n```python\nFINAL_VAR('x')\n```", "Three.", "FINAL_VAR('x')"),
        ("```python\nanswer['ready'] = True\n```", "", "answer['ready'] = True"),
        ("```python\nx = (\n```", "```python\nx = (\n```", None),
        ("Three:\n```python\nprint(3)\n```", "Three:\n```python\nprint(3)\n```", None),
    ],
)
def test_last_answer_is_prose_or_code_that_calls_final(
    answer: str, words: str, code: str | None
) -> None:
    assert last_answer(answer) == (words, code)


@given(st.text(alphabet="`~\n <>/=()x'\"#assistant-replFINAL", max_size=120), st.booleans())
def test_any_answer_is_code_or_feedback(answer: str, ended: bool) -> None:
    found = extract_code(answer, ended=ended)
    assert (found.code is None) == bool(found.feedback)
    assert found.code is None or found.code.strip()
