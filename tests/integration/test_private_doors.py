"""Private variables at every door through which text reaches a model or an agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.values import PrivateUse
from mahtab_tui.session.frontend import Frontend, HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import start_thread
from tests import tags
from tests.integration.sessions import Opened, OpenSession
from tests.services import OPENAI, Service, serving
from tests.trust import trust_project
from tests.waiting import wait_for

CANARY = "canary-Zq7"
NUMBER = "424242"
"""Unlike texts, numbers are not masked: it is hidden only if the whole output is."""

MAKE = f"""
import pandas as pd
word = "{CANARY} word"
numbers = ["{CANARY} in a list", 7]
by_name = {{"{CANARY} key": "{CANARY} value"}}
df = pd.DataFrame({{"{CANARY} column": ["{CANARY} cell", "other"], "n": [{NUMBER}, 2]}})
failure = ValueError("{CANARY} in an error")
long = "\\n".join(f"{CANARY} {{at}} " + "lorem ipsum " * 9 for at in range(300))
open_one = "anybody may read this"
box = [word]
alias = df
def show(): print(df, word)
"""
NAMES = ("word", "numbers", "by_name", "df", "failure", "long")

OUTPUTS = (
    "df",
    "print(word, numbers, by_name)",
    "df.head()",
    "show()",
    "box",
    "alias",
    "globals()['wo' + 'rd']",
    "raise failure",
    "by_name['no such key' + word]",
    "df['no such column']",
    "%whos",
    "long[:200]",
    "_",
    "f'{word!r:>40}'",
    "[each for each in numbers]",
    "word +",
)


class AskingFrontend(HeadlessFrontend):
    can_ask = True


class PrivateDoors(Opened):
    service: Service

    def asked(self) -> str:
        return json.dumps(self.service.asked, ensure_ascii=False)

    def ask(self, question: str, *answers: str) -> str:
        earlier_requests = len(self.service.asked)
        self.service.replies = [OPENAI.reply(answer) for answer in answers or ("Fine.",)]
        self.session.agent.ask(question, attach=True)
        return json.dumps(self.service.asked[earlier_requests:], ensure_ascii=False)

    def allow(self) -> None:
        start_thread("user", self.decide, "run")


def open_doors(
    service: Service, frontend: Frontend | None = None, past: Sequence[Record] = (), **options: Any
) -> PrivateDoors:
    loaded = load_settings(
        model="openai:our-own", reflection="never", **{"approval": "auto", **options}
    )
    doors = PrivateDoors.make(loaded, frontend or AskingFrontend(), past=past)
    doors.service = service
    doors.session.start()
    return doors


@pytest.fixture
def service(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving() as service:
        (project / ".env").write_text(f"MAHTAB_BASE_URL={service.url}/v1\n")
        trust_project()
        (home / ".mahtab" / "config.toml").write_text(
            '[api_keys]\nopenai-compatible = "sk-aaaaaaaaaaaaaaaa"\n'
        )
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield service


@pytest.fixture
def it(service: Service) -> Iterator[PrivateDoors]:
    doors = open_doors(service)
    doors.run(MAKE, *(f"private({name!r})" for name in NAMES))
    yield doors
    doors.session.close()


def test_only_names_of_private_variables_are_sent(it: PrivateDoors) -> None:
    sent = it.ask("What do I have?")
    assert CANARY not in sent
    assert NUMBER not in sent
    assert all(f"{name}: private" in sent for name in (*NAMES, "alias"))
    assert "open_one: str = 'anybody may read this'" in sent


def test_outputs_and_tracebacks_of_user_cells_hide_private_values(it: PrivateDoors) -> None:
    withheld = it.ask("What do I have?").count(PRIVATE_CELL)
    for number, code in enumerate(OUTPUTS):
        it.run("word" if code == "_" else f"{number} + 1", code)
        withheld += 2 if code == "_" else 1
        sent = it.ask("And now?")
        assert CANARY not in sent, code
        assert NUMBER not in sent, code
        assert sent.count(PRIVATE_CELL) == withheld, code
        assert f"{number} + 1" in sent or code == "_"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "code",
    [
        "copied = [str(each) for each in (lambda: numbers)()]",
        "import copy\nother = copy.deepcopy(by_name)",
        "rows = df.to_dict()\nrows",
    ],
)
def test_private_texts_are_covered_wherever_they_appear(it: PrivateDoors, code: str) -> None:
    it.run(code)
    name = "other" if "deepcopy" in code else "rows" if "rows" in code else "copied"
    it.run(f"{name}", f"print({name!r}, {name})")
    sent = it.ask(f"What is ${name}? It has {CANARY} word in it")
    assert CANARY not in sent
    assert "••••••••" in sent


def test_mentions_attach_no_private_values(it: PrivateDoors, project: Path) -> None:
    it.run("open('copy.txt', 'w').write(long)")
    sent = it.ask("look at $word, $df, @alias, $alias, $failure, @copy.txt")
    assert CANARY not in sent
    assert NUMBER not in sent
    assert "[Not attached: it is private.]" in sent
    assert [chip.size for chip in it.session.attachments.chips("$df, $alias")] == [
        "private: not sent"
    ] * 2


def test_pictures_of_cells_using_private_variables_are_not_sent(it: PrivateDoors) -> None:
    it.run(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfigure = plt.figure(); plt.title(word); figure"
    )
    cell = it.session.cells.last
    sent = it.ask(f"look at @cell:{cell}")
    assert "[Not attached: it is private.]" in sent
    assert "image_url" not in sent
    assert [chip.size for chip in it.session.attachments.chips(f"@cell:{cell}")] == [
        "not sent: it uses a private variable"
    ]


def test_model_code_using_a_private_variable_asks_in_every_mode(it: PrivateDoors) -> None:
    for mode in ("auto", "review", "ask"):
        it.session.info.set_approval(mode)
        for code in ("df.shape", "show()", "vars()", "getattr(box, 'copy')()", "eval('w' + 'ord')"):
            earlier_approvals = len(it.store.of(tags.APPROVAL))
            it.service.replies = [OPENAI.reply(f"```python\n{code}\n```"), OPENAI.reply("Done.")]
            it.session.submit("ask", "go on")
            wait_for(
                partial(
                    lambda earlier_approvals: len(it.store.of(tags.APPROVAL)) > earlier_approvals,
                    earlier_approvals,
                )
            )
            waiting = it.store.of(tags.APPROVAL)[-1]
            assert waiting.state == "waiting"
            assert "private" in waiting.why
            assert "would see its output" in waiting.why
            it.decide("stop", waiting.request)
            wait_for(lambda: not it.session.agent.in_turn)
    assert CANARY not in it.asked()


def test_output_of_allowed_code_is_sent_without_private_texts(it: PrivateDoors) -> None:
    it.allow()
    sent = it.ask("How large is it?", "```python\nprint(df.shape, word)\n```", "It is (2, 2).")
    assert "(2, 2)" in sent
    assert CANARY not in sent
    later = it.ask("And before?")
    assert "(2, 2)" in later
    assert CANARY not in later


def test_output_of_code_edited_to_use_a_private_variable_is_withheld(it: PrivateDoors) -> None:
    it.session.info.set_approval("ask")

    start_thread("user", partial(it.decide, "run", code="print(df)"))
    sent = it.ask("Go on.", "```python\nprint(open_one)\n```", "Done.")
    assert it.wait_approval().why is None
    assert PRIVATE_CELL in sent
    assert NUMBER not in sent
    assert CANARY not in sent


def test_model_code_using_no_private_variable_runs_by_itself(it: PrivateDoors) -> None:
    sent = it.ask(
        "What is it?", "```python\nprint(open_one.upper())\nfor _ in range(2): pass\n```", "That."
    )
    assert "ANYBODY MAY READ THIS" in sent
    assert not it.store.of(tags.APPROVAL)


def test_private_code_does_not_run_when_nobody_can_be_asked(service: Service) -> None:
    doors = open_doors(service, HeadlessFrontend())
    doors.run(MAKE, "private('word')")
    sent = doors.ask(
        "What is it?", "```python\nopen('made', 'w').write(word)\n```", "It did not run."
    )
    assert "no one is here to approve it" in sent
    assert doors.value("__import__('os').path.exists('made')") == "False"
    doors.session.close()


def test_what_is_private_stays_so_while_the_kernel_does_not_answer(it: PrivateDoors) -> None:
    private = it.session.private
    private.refresh()
    it.session.kernel.close()
    private.refresh()
    assert private.is_private("alias")
    private.mark("long", private=False)
    assert CANARY not in it.session.secrets.redact_for_model(f"{CANARY} word")


def test_model_cannot_unmark_a_private_variable(it: PrivateDoors) -> None:
    marked = "word is private: models and agents know it exists, but not what it contains."
    assert marked in [record.text for record in it.store.of(tags.NOTICE)]
    it.allow()
    sent = it.ask(
        "Do it.", "```python\nprivate('wor' + chr(100), False) or word\n```", "It failed."
    )
    assert "cannot make a private variable public" in sent
    assert "word" in it.session.private.names


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "code",
    [
        "rlm('what is it?', long)",
        "rlm('what?', {'a': open_one, 'b': long})",
        "rlm('what?', box)",
        "ask(f'what is {word}?')",
    ],
)
def test_searches_and_questions_include_no_private_values(it: PrivateDoors, code: str) -> None:
    output = it.run(code)
    assert "sends text to a model, and this cell uses" in output.text
    assert not it.service.asked


def test_private_texts_are_covered_in_a_search(it: PrivateDoors) -> None:
    it.run("copied = open_one + ' ' + ''.join(list(long))")
    it.service.replies = [
        OPENAI.reply("```python\nprint(context[:3000])\nFINAL(context[:60])\n```")
    ]
    it.run("rlm('what is it?', copied)")
    assert it.service.asked
    assert CANARY not in it.asked()


def test_conversation_summaries_hide_private_values(service: Service) -> None:
    doors = open_doors(service, max_history=2)
    doors.run(MAKE, "word", "numbers")
    for question in ("One?", "Two?"):
        doors.ask(question, f"I see {CANARY} word.")
    assert CANARY in doors.asked(), "it is sent until it is marked"
    doors.run(*(f"private({name!r})" for name in NAMES))
    sent = doors.ask("Three?", "A summary.", "Three.") + doors.ask("Four?", "A summary.", "Four.")
    assert any("<conversation>" in json.dumps(request) for request in doors.service.asked)
    assert CANARY not in sent
    doors.session.close()


def test_marking_withholds_earlier_output_and_unmarking_restores_it(service: Service) -> None:
    doors = open_doors(service)
    doors.run(MAKE, "show()", "2 + 2")
    request_before = doors.ask("Before?")
    assert CANARY in request_before
    assert NUMBER in request_before
    assert "df: DataFrame, 2 rows x 2 columns" in request_before
    doors.run("private('df')", "private('word')")
    sent = doors.ask("Marked?")
    assert "canary-Zq7 word" not in sent
    assert "canary-Zq7 cell" not in sent
    assert "df: DataFrame" not in sent
    assert NUMBER not in sent
    assert PRIVATE_CELL in sent
    assert "2 + 2" in sent
    doors.run("private('df', False)", "private('word', False)")
    assert f"{CANARY} word" in doors.ask("And now?")
    doors.session.close()


def test_other_agents_see_no_private_values(it: PrivateDoors) -> None:
    frames: list[Any] = []
    answer_call = it.join_agent(frames.append)

    def serve(operation: str, **args: Any) -> str:
        try:
            return json.dumps(answer_call(operation, **args), ensure_ascii=False)
        except Exception as error:
            return str(error)

    it.run("word", "alias")
    inside = serve("contents", seen=True)
    assert '"private"' in inside
    assert "uses a private variable" in inside
    answers = [inside, *(serve("inspect", name=name) for name in (*NAMES, "alias", "box", "show"))]
    assert all(
        "is private: the user does not share" in answer for answer in answers[1 : len(NAMES) + 2]
    )
    assert NUMBER not in "".join(answers)
    answers.append(serve("evaluate", code="other = open_one\nprint(other)"))
    assert "anybody may read this" in answers[-1]
    it.allow()
    answers.append(serve("evaluate", code="y = df\nprint(df, word)\nraise failure"))
    assert "other" in answers[-1]
    assert CANARY not in "".join(answers)
    assert CANARY not in json.dumps(frames)
    assert CANARY not in it.ask("What did the agent do?")


def test_changes_and_undo_hide_private_values(it: PrivateDoors) -> None:
    it.run("df = df[df.n > 2]")
    it.session.undo.undo(it.session.cells.last)
    sent = it.ask("What changed?")
    assert CANARY not in sent
    assert "1 × 2" not in sent
    assert "2 × 2" not in sent


def test_changed_and_old_private_values_are_covered_too(it: PrivateDoors) -> None:
    it.run(
        f"word = '{CANARY} another'",
        "harmless = ''.join(reversed(''.join(reversed(word))))",
        "harmless",
    )
    assert CANARY not in it.ask("What is $harmless?")
    it.run("word = 5", "private('open_one')", f"{CANARY!r} + ' another'")
    assert CANARY + " another" not in it.ask("And now?")


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["killed", "another interpreter"])
def test_marks_survive_a_new_kernel_and_a_resumed_session(
    it: PrivateDoors, service: Service, how: str
) -> None:
    pid_before = it.session.kernel.info().pid
    it.session.kernel.kill() if how == "killed" else it.session.kernel_control.activate(
        sys.executable
    )
    wait_for(lambda: it.session.kernel.info().pid != pid_before)
    it.run(MAKE)
    assert CANARY not in it.ask("What do I have?")
    again = open_doors(service, HeadlessFrontend(), list(it.store.records))
    again.run(MAKE, "word")
    assert again.session.private.names == sorted(NAMES)
    assert CANARY not in again.ask("And now?")
    again.session.close()


def test_a_variable_that_becomes_private_while_another_becomes_public_stays_private(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = open_session()
    texts = {name: f"{CANARY} {name}" for name in ("first", "second", "third")}
    it.run("; ".join(f"{name} = {text!r}" for name, text in texts.items()))
    names = it.session.private
    for name in ("first", "second"):
        names.mark(name, True)
    kernel = it.session.cells._runtime.kernel
    ask_kernel = kernel.private_use
    threads: list[Thread] = []

    def private_use(private_names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Mark the third variable while the answer for the second alone is under way."""
        answer = ask_kernel(private_names, codes)
        if not threads and list(private_names) == ["second"]:
            threads.append(start_thread("marks", names.mark, "third", True))
            threads[0].join(1)
        return answer

    monkeypatch.setattr(kernel, "private_use", private_use)
    names.mark("first", False)
    threads[0].join()
    hidden = {name: it.session.secrets.redact_for_model(text) for name, text in texts.items()}
    assert {name for name, text in hidden.items() if CANARY in text} == {"first"}
