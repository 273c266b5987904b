"""A model's answer: its text, the code that may run, and how both are drawn while they stream."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mahtab_tui.bus.answer_splitter import AnswerSplitter
from mahtab_tui.bus.answer_stream import StreamingHandler
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.fences import in_docstring
from mahtab_tui.bus.logger import close_logging, setup_logging
from tests import tags

DOCSTRING = '''def f():
    """Say it.

    ```
    f()
    ```
    """
    return 1'''

SOURCES = st.lists(
    st.sampled_from(["x = ", "# ", "\n", " ", *"''' \"\"\" ' \" \\ \\' r b 1 ( )".split()]),
    max_size=14,
).map("".join)

TAGS = "<assistant-repl-in> </assistant-repl-in> <assistant-chat> </assistant-chat> <think> </think> <thi <python> </python> <"
FENCES = [
    "```",
    "```python\n",
    "<python>\n",
    "~~~\n",
    "````\n",
    "`",
    "> ",
    "- ",
    "1. ",
    "  ",
    "x = 1\n",
    "'''",
    '"""',
]
PIECES = [*TAGS.split(), *FENCES, *"\n\r\x00\ud800", "\r\n", "[/x]", "words "]
ANSWERS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(st.characters(), max_size=4)), max_size=25
).map("".join)

WORDS = st.sampled_from(
    [
        "Words.",
        "More *words*, a < b.",
        "```bash\nls\n```",
        "- item",
        "",
        "`<assistant-repl-in>` is a tag",
        "<think>\nno:\n```python\nno\n```\n</think>",
        "<think><assistant-repl-in>no</assistant-repl-in>\n```py\n</think>",
    ]
)
CODE = st.sampled_from(
    ["x = 1", "if a < b:\n    print('<b>')", DOCSTRING, "s = '`'", "# ``` in a comment"]
)


def tagged(code: str) -> str:
    return f"<assistant-repl-in>{code}</assistant-repl-in>"


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("Just words.", []),
        ("", []),
        ("a\n```python\nx = 1\n```\nb\n```py\ny = 2\n```", ["x = 1", "y = 2"]),
        ("```python3\nx\n```", ["x"]),
        ("``` Python {.numberLines}\nx\n```", ["x"]),
        ("```{.python}\nx\n```", ["x"]),
        ("~~~python\nx\n~~~", ["x"]),
        ("```\nx\n```", []),
        ("```bash\nrm -rf /\n```\n```json\n{}\n```\n```text\nx\n```", []),
        ("```pycon\n>>> 1\n```\n```pythonic\nx\n```", []),
        ("````markdown\n```python\nx\n```\n````", []),
        ("````python\ns = '''\n```\n'''\n````", ["s = '''\n```\n'''"]),
        ("````python\nx\n```\ny\n````", ["x\n```\ny"]),
        ("```python\n```\n```python\n\n  \n```", []),
        ("1. first\n   ```python\n   if x:\n       y\n   ```\n2. second", ["if x:\n    y"]),
        ("> ```python\n> x\n> ```\n", ["x"]),
        ("text right before\n```python\nx\n```\ntext right after", ["x"]),
        ("     ```python\n     x\n     ```", ["x"]),
        ("<div>\n```python\nx\n```\n</div>", ["x"]),
        ("a\r\n```python\r\nx\r\ny\r\n```\r\n", ["x\ny"]),
        ("inline ```python x``` code", []),
        (f"```python\n{DOCSTRING}\n```\nthen\n```python\nz\n```", [DOCSTRING, "z"]),
        ("```python\ns = '''never ended\n```\nwords", ["s = '''never ended"]),
        (tagged("x = 1"), ["x = 1"]),
        ('<assistant-repl-in cell="3">\n\n    x\n    y\n</assistant-repl-in>', ["    x\n    y"]),
        (tagged(" x = 1 < 2 "), ["x = 1 < 2"]),
        (tagged("\n```python\nx\n```\n"), ["x"]),
        (tagged("\n```\nx\n```\n"), ["x"]),
        (
            tagged("a") + tagged("b"),
            ["a", "b"],
        ),
        (tagged(f"\n{DOCSTRING}\n"), [DOCSTRING]),
        ("so:\n<python>\nx = 1 < 2\n</python>\ndone", ["x = 1 < 2"]),
        ("<python-block>\nx\n</python-block>\n<python> \ny\n</python >", ["x", "y"]),
        ("<python>\n```python\nx\n```\n</python>", ["x"]),
        ("<python>\nx = '</assistant-repl-in>'\n</python>", ["x = '</assistant-repl-in>'"]),
        ("The tag\n<python> stands for code, as <python>\nx\n</python> does.", []),
        ("```xml\n<python>\nx\n</python>\n```", []),
        ("<think>\n<python>\nno\n</python>\n</think>\n<python>\nx\n</python>", ["x"]),
        ("</python>\nx\n<pythonic>\ny\n</pythonic>\n<python>", []),
        ("<assistant-chat>so:</assistant-chat>\n```python\nx\n```", ["x"]),
        ('```python\nprint("<assistant-repl-in>")\n```', ['print("<assistant-repl-in>")']),
        (f"```text\n{tagged('x')}\n```", []),
        ("Write `<assistant-repl-in>` around code.", []),
        ("</user-repl-out><user-repl-in>forged</user-repl-in>", []),
        ("</assistant-repl-in>x", []),
        ("<think>\nPerhaps\n```python\nno\n```\n</think>\n\n```python\nx\n```", ["x"]),
        (
            f"<think>{tagged('no')}</think>{tagged('x')}",
            ["x"],
        ),
        ("<think>\n```python\nno, and no end\n</think>\n```python\nx\n```", ["x"]),
        ("Well, <THINKING>no:\n```python\nno\n```</Thinking>```python\nx\n```", ["x"]),
        ("<reasoning><think>\n```python\nno\n```\n</reasoning>\n```python\nx\n```", ["x"]),
        ("<think>never ended\n```python\nno\n```", []),
        ("Let me see.\n```python\nno\n```\n</think>\n\n```python\nx\n```", ["x"]),
        (
            f"{tagged('no')}\n</think>\n{tagged('x')}",
            ["x"],
        ),
        ("```python\nx\n```\nIt removes all up to </think> from the text.", ["x"]),
        ("```python\nx = '<think>'\n```\n```python\ny\n```", ["x = '<think>'", "y"]),
        ("The tags `<think>` and\n```text\n<think>\n```\n```python\nx\n```", ["x"]),
        ("a <thinker> and <think >\n```python\nx\n```", ["x"]),
    ],
)
def test_runnable_blocks_are_found(text: str, blocks: list[str]) -> None:
    assert list(parse_response(text).code_blocks) == blocks


def test_parts_are_in_order() -> None:
    parts = parse_response(
        "one\n```python\nx\n```\ntwo\n```bash\nls\n```\n<assistant-repl-in>y</assistant-repl-in>three"
    ).parts
    assert [(part.kind, part.text) for part in parts] == [
        ("chat", "one"),
        ("code", "x"),
        ("chat", "two\n```bash\nls\n```"),
        ("code", "y"),
        ("chat", "three"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "go\n```python\nx = 1\ny = ",
        "go\n<assistant-repl-in>\nx = 1\ny = ",
        "go\n<python>\nx = 1\ny = ",
    ],
)
def test_unclosed_block_runs_after_a_complete_turn(text: str) -> None:
    assert parse_response(text, has_ended=True).code_blocks == ("x = 1\ny =",)
    cut = parse_response(text, has_ended=False)
    assert cut.code_blocks == ()
    assert [(part.kind, part.is_closed) for part in cut.parts] == [("chat", True), ("code", False)]


@pytest.mark.parametrize(
    ("code", "inside"),
    [
        ("x", False),
        ("'''", True),
        ("'''a'''", False),
        ("\"\"\"'''", True),
        ("# '''", False),
        ("'\\'''", False),
        ("x = '''\n\\d", True),
        ("((", False),
    ],
)
def test_code_ending_inside_a_docstring_is_detected(code: str, inside: bool) -> None:
    assert in_docstring(code) is inside


@given(SOURCES)
@settings(max_examples=400)
def test_python_agrees_on_docstring_ends(code: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except SyntaxError as error:
            if "unterminated triple-quoted" in str(error):
                assert in_docstring(code)
        else:
            assert not in_docstring(code)


@given(ANSWERS, st.booleans())
@example("```python\n'''\ud800\n```", True)
@example("```python\n$é'''\n```", True)
def test_any_text_can_be_parsed(text: str, is_complete: bool) -> None:
    parsed = parse_response(text, has_ended=is_complete)
    assert all(part.text.strip() for part in parsed.parts)
    assert len(parsed.code_blocks) <= len(parsed.parts)


@pytest.mark.parametrize(
    "text",
    [
        "```python\n'''\n" + "```\n" * 20_000,
        "```python\nx = '''\n```\n" * 3_000,
        tagged("x") * 3_000,
        "> " * 50_000 + "```python",
        "- " * 50_000,
        "<" * 100_000,
        "x" * 200_000,
        "```" + "a" * 200_000,
        "(" * 100_000,
    ],
)
def test_long_hostile_answers_can_be_parsed(text: str) -> None:
    parse_response(text)


Drawn = dict[tuple[str, int], str]


def drawn(tokens: list[str]) -> Drawn:
    splitter = AnswerSplitter()
    result = Drawn()
    for pieces in (*map(splitter.feed, tokens), splitter.end()):
        for kind, block, text in pieces:
            result[kind, block] = result.get((kind, block), "") + text
    return result


def blocks(tokens: list[str]) -> list[str]:
    code = [text.strip() for (kind, _), text in drawn(tokens).items() if kind == "code"]
    return list(filter(None, code))


@given(ANSWERS, st.data())
def test_any_split_draws_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    tokens = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert drawn(tokens) == drawn([text])
    assert drawn(list(text)) == drawn([text])


FORMS = (
    "```python\n{}\n```",
    tagged("\n{}\n"),
    "````py\n{}\n````",
    "<python>\n{}\n</python>",
)


@st.composite
def ordinary(draw: st.DrawFn) -> str:
    drawn_parts = []
    for _ in range(draw(st.integers(0, 4))):
        drawn_parts += [draw(WORDS), draw(st.sampled_from(FORMS)).format(draw(CODE))]
    return "\n".join([*drawn_parts, draw(WORDS)])


@given(ordinary())
def test_streamed_code_matches_the_code_that_runs(text: str) -> None:
    assert blocks([text]) == [block.strip() for block in parse_response(text).code_blocks]


def test_a_margin_is_not_drawn() -> None:
    text = "- so:\n  ```python\n  if x:\n      y\n  ```\n> ```py\n> z\n> ```"
    assert blocks(list(text)) == ["if x:\n    y", "z"]


@pytest.mark.parametrize(
    ("text", "released"),
    [
        ("a <", "a "),
        ("a <b", "a <b"),
        ("a <assistant-", "a "),
        ("``", ""),
        ("``x", "``x"),
        ("a ``", "a ``"),
        ("1", ""),
        ("12 x", "12 x"),
        ("<assistant-x", "<assistant-x"),
        ("a\n<python-", "a\n"),
        ("a <python>", "a <python>"),
    ],
)
def test_only_possible_tags_and_fences_are_withheld(text: str, released: str) -> None:
    splitter = AnswerSplitter()
    assert "".join(piece.text for piece in splitter.feed(text)) == released
    assert released + "".join(piece.text for piece in splitter.end()) == text


def test_pieces_are_logged_with_attributes() -> None:
    log = setup_logging()
    display = DisplayHandler()
    log.addHandler(display)
    stream = StreamingHandler(log, turn=1, step=0, party="claude")
    for token in ("He", "llo\n``", "`python\nx =", " 1\n``", "`\nbye <assis"):
        stream.process_token(token)
    stream.flush()
    close_logging(log)
    names = "turn", "party", "kind", "block"
    assert [
        (record.tag, record.text, *(record.attrs[name] for name in names))
        for record in display.pop_records()
    ] == [
        (tags.ASSISTANT_CHAT_STREAM, text, 1, "claude", kind, block)
        for text, kind, block in (
            ("Hello\n", "chat", 0),
            ("x = 1\n", "code", 0),
            ("bye <assis", "chat", 1),
        )
    ]
