"""Indentation, brackets, pasted text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.tui.editor.code_area import SourceSpan, find_source_spans, strip_literals
from mahtab_tui.tui.editor.pasting import (
    clean,
    has_curly_quotes,
    next_indent,
    prepare_pasted_python,
    straighten_quotes,
)


@pytest.mark.parametrize(
    ("before", "indent"),
    [
        ("x = 1", 0),
        ("if x:", 4),
        ("if x:  # why", 4),
        ("    while y:", 8),
        ("x = [", 4),
        ("f(a, {", 4),
        ("    x = 1", 4),
        ("    return x", 0),
        ("        raise ValueError(x)", 4),
        ("    pass", 0),
        ("return", 0),
        ("    returned = 1", 4),
        ("    return {", 8),
        ("# remark:", 0),
        ("print('a: # b')", 0),
        ("print('if x:')", 0),
        ("f(\n    a,\n    b)", 0),
        ("    f(a,\n      b)", 4),
        ("def f(\n    a,\n):", 4),
        ("    return (1,\n            2)", 0),
        ("x = '''\n    if y:\n  z'''", 0),
        ("", 0),
    ],
)
def test_a_new_line_is_indented_as_python_wants_it(before: str, indent: int) -> None:
    assert next_indent(before) == " " * indent


def test_brackets_in_strings_and_comments_are_ignored() -> None:
    text = "f('(', [1]) # )"
    assert [span for span in find_source_spans(text) if span.bracket] == [
        SourceSpan(7, 9, True),
        SourceSpan(1, 10, True),
    ]


def test_unmatched_bracket_has_no_span() -> None:
    assert list(find_source_spans("(]")) == []


def test_bare_text_keeps_only_what_is_code() -> None:
    assert strip_literals('f(\'a\', """b\nc""")  # d') == 'f("", "")  '


@given(st.text(alphabet=st.sampled_from("a()[]{}'\"\\#\n")))
def test_spans_lie_within_the_text_and_pair_what_belongs_together(text: str) -> None:
    for span in find_source_spans(text):
        assert 0 <= span.start <= span.end < len(text)
        if span.bracket:
            assert text[span.start] + text[span.end] in ("()", "[]", "{}")


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("x = 1\r\ny = 2\r", "x = 1\ny = 2\n"),
        ("\tif x:\n\t\ty", "if x:\n    y"),
        ("    if x:\n        y\n\n    z", "if x:\n    y\n\nz"),
        ("x = 'a\tb'", "x = 'a\tb'"),
        (">>> x = 1\n>>> for y in z:\n...     y\n...\n1\n", "x = 1\nfor y in z:\n    y\n\n# 1"),
        ("    >>> x\n    1", "x\n# 1"),
        ("In [3]: x = [\n   ...:     1]\nOut[3]: 5", "x = [\n    1]\n# Out[3]: 5"),
        ("x = 1 \x1b]52;c;aGk=\x07+ 1\x00", "x = 1 + 1"),
        ("x = 'a\u202eb'", "x = 'ab'"),
        ("...", "..."),
        ("... and so on", "... and so on"),
        ("```python\nx = 1\n\ny = 2\n```\n", "x = 1\n\ny = 2"),
        ("\n  ~~~ py\n  x = 1\n  ~~~", "x = 1"),
        ("```\n>>> x\n1\n```", "x\n# 1"),
        (
            "```py\nx = 1\n```\nThen *this*:\n\n```py\ny = 2\n```\nDone.",
            "x = 1\n# Then *this*:\n\ny = 2\n# Done.",
        ),
        ("````\ns = '''\n```\nx\n```\n'''\n````", "s = '''\n```\nx\n```\n'''"),
        ('```python title="a.py" hl_lines="1"\nx = 1\n```', "x = 1"),
        ("```{python}\nx = 1\n```", "x = 1"),
        ("      ```py\n      x = 1\n      ```", "x = 1"),
        ("```python\nx = 1", "x = 1"),
        ("x = 1\n```", "x = 1"),
        ("s = '''\n```py\nx\n```\n'''", "s = '''\n```py\nx\n```\n'''"),
        ("s = '''\n```py\nx\n```", "s = '''\n```py\nx\n```"),
    ],
)
def test_pasted_python_is_made_runnable(text: str, python: str) -> None:
    assert prepare_pasted_python(text, into_empty=True) == python


def test_pasted_code_keeps_its_indentation_inside_other_code() -> None:
    assert prepare_pasted_python("    x\n    y", into_empty=False) == "    x\n    y"


@pytest.mark.parametrize(
    ("text", "straight"),
    [
        ("print(“a”, ‘b’)", "print(\"a\", 'b')"),
        ("print(“it’s”)", 'print("it\'s")'),
        ("print(“it's”)", 'print("it\'s")'),
        ('x = "it’s", ‘b’', "x = \"it’s\", 'b'"),
        ("x = „a“  # “said”", 'x = "a"  # “said”'),
    ],
)
def test_curly_quotes_are_straightened(text: str, straight: str) -> None:
    assert has_curly_quotes(text)
    assert straighten_quotes(text) == straight
    assert not has_curly_quotes(straight)


@given(st.text())
def test_clean_text_holds_no_control_characters(text: str) -> None:
    assert not any(ord(character) < 32 and character not in "\n\t" for character in clean(text))


@pytest.mark.timeout(60)
def test_blanks_behind_a_fence_take_linear_time() -> None:
    text = f"```{' ' * 1_000_000}!"
    assert prepare_pasted_python(text, into_empty=True) == text
