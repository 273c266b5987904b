"""Random sessions of cells and questions, with random rewinds and redos, compared with what each
part was like before.

``nice python -m tests.random_rewind 20`` runs 20 sessions, prints the seeds that differ, and exits
with 1 then."""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus.entries import Note
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching
from mahtab_tui.session.rewinding import RewindPreview, RewindScope
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.transcript.fold import Transcript
from tests.integration.sessions import Opened
from tests.services import OPENAI, Reply, Service, serving
from tests.waiting import wait_for

NAMES = "a b c items table"
DIGEST = f"print({{name: globals()[name] for name in '{NAMES}'.split() if name in globals()}})"
START = "items = []; table = {}"
CELLS = (
    "a = NUMBER",
    "b = items",
    "c = [NUMBER, a] if 'a' in globals() else 0",
    "items.append(NUMBER)",
    "items.clear()",
    "table[NUMBER % 3] = [NUMBER]",
    "table.setdefault(0, []).append(items)",
    "globals().pop('b', None)",
    "print('seen', NUMBER)",
    "open('f1.txt', 'w').write('NUMBER')",
    "open('f2.txt', 'a').write('NUMBER ')",
    "import os; os.path.exists('f1.txt') and os.remove('f1.txt')",
    "import os; os.path.exists('f2.txt') and os.rename('f2.txt', 'f3.txt')",
    "items.append(NUMBER); open('fNUMBER.txt', 'w').write('new')",
    "raise ValueError(NUMBER)",
)
_TOKEN = re.compile(r"tok\d+")


class Parts(NamedTuple):
    """What a session is like."""

    conversation: list[str]
    """The tokens of all that the model gets, in order."""
    rows: list[tuple[str, str]]
    """Kind and text of each entry that has not left the conversation."""
    namespace: str
    files: dict[str, str]


class RandomSession:
    """A session that goes on at random."""

    def __init__(self, it: Opened, service: Service, folder: Path, seed: int) -> None:
        self.it = it
        self.service = service
        self.folder = folder
        self.rng = random.Random(seed)
        self.number = 0
        self.before_entry: dict[str, Parts] = {}
        """What the session was like before each question, step and cell of the user, by its entry."""
        self.before_cell: dict[int, Parts] = {}
        self.redos: list[tuple[Parts, set[int]]] = []
        """What the session was like before each rewind that can be reversed, and `cells_without_files`."""
        self.cells_without_files: set[int] = set()
        """Cells whose files were taken back."""
        self.sent: dict[int, list[dict[str, Any]]] = {}
        """The last request of each question."""
        self.steps: list[str] = []

    def look(self) -> Parts:
        return Parts(self._conversation(), self._rows(), self._namespace(), self._files())

    def _conversation(self) -> list[str]:
        """Return the tokens of the conversation, and of what goes with the next question."""
        hidden = self.it.session.agent.hidden
        texts = [str(message.text) for message in self.it.session.agent.agent.messages]
        prompt = next(h for h in self.it.session.log.handlers if isinstance(h, PromptHandler))
        for element in prompt.get_context().split("\n<"):
            cell = re.search(r'cell="(\d+)"', element)
            if cell is None or f"cell {cell[1]}" not in hidden:
                texts.append(element)
        return list(dict.fromkeys(_TOKEN.findall("\n".join(texts))))

    def _rows(self) -> list[tuple[str, str]]:
        transcript = Transcript(0.0)
        transcript.fold(self.it.store.records)
        return [
            (type(entry).__name__, entry.plain_text)
            for entry in transcript.entries
            if not (isinstance(entry, Note) or entry.removed or entry.hidden)
        ]

    def _namespace(self) -> str:
        pieces: list[str] = []
        self.it.session.kernel.execute(
            DIGEST, cell=0, on_output=lambda kind, text: pieces.append(text)
        )
        return "".join(pieces)

    def _files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.glob("f*.txt"))}

    def _codes(self, count: int) -> list[str]:
        """Return different cells. An answer that repeats itself would be stopped."""
        codes: list[str] = []
        for template in self.rng.sample(CELLS, count):
            self.number += 1
            code = template.replace("NUMBER", str(self.number))
            codes.append(f"{code}  # tok{self.number}")
        return codes

    def start(self) -> None:
        self.run_cell(START)

    def run_cell(self, code: str = "") -> None:
        parts = self.look()
        self.redos.clear()
        code = code or self._codes(1)[0]
        cell = self.it.session.cells.last + 1
        self.steps.append(f"cell {cell}: {code}")
        self.before_entry[f"cell {cell}"] = self.before_cell[cell] = parts
        self.it.run(code)

    def ask(self) -> None:
        parts = self.look()
        self.redos.clear()
        turn = self.it.session.agent.last + 1
        self.before_entry[f"question {turn}"] = parts
        self.number += 1
        question = f"What is tok{self.number}?"
        codes = self._codes(self.rng.choice((0, 0, 1, 1, 2)))
        self.number += 1
        words = f"It is tok{self.number}."
        first_cell = self.it.session.cells.last + 1
        self.service.replies = [
            *(self._step(first_cell + index, code) for index, code in enumerate(codes)),
            OPENAI.reply(words),
        ]
        self.steps.append(f"question {turn}: {question} {codes} {words}")
        self.it.ask_and_wait(question)
        wait_for(lambda: self.it.session.inbox.idle and not self.it.session.agent.in_turn)
        self.sent[turn] = self.service.asked[-1]["messages"]
        self._check_sent(question, codes, words)

    def _step(self, cell: int, code: str) -> Reply:
        """Return an answer with code. While it is sent, the session is what it is before the cell."""

        def look() -> None:
            self.before_cell[cell] = Parts([], [], self._namespace(), self._files())

        reply = OPENAI.reply(f"First this.\n\n```python\n{code}\n```\n")
        return reply._replace(pieces=[look, *reply.pieces])

    def _check_sent(self, question: str, codes: list[str], words: str) -> None:
        """Compare what the service got with the entries that have not left the conversation."""
        sent = "\n".join(str(message["content"]) for message in self.service.asked[-1]["messages"])
        shown_tokens = {token for _, text in self._rows() for token in _TOKEN.findall(text)}
        expected = shown_tokens - set(_TOKEN.findall(words))
        tokens = set(_TOKEN.findall(sent))
        assert tokens == expected, f"sent {tokens - expected}, not sent {expected - tokens}"

    def rewind(self) -> None:
        rewinding = self.it.session.rewinding
        points = rewinding.points()
        if not points:
            return
        point = self.rng.choice(points)
        scope = RewindScope()
        if self.rng.random() < 0.4:
            scope = RewindScope(*(self.rng.random() < 0.6 for _ in scope))
        before = self.look()
        preview = rewinding.preview(point, scope)
        assert self.look() == before, "a preview changes something"
        self.steps.append(f"rewind to {point.label} {tuple(scope)}: {preview.target}")
        if preview.does_nothing:
            return
        assert not preview.unrestorable, preview.unrestorable
        rewinding.rewind(preview)
        self.redos.append((before, set(self.cells_without_files)))
        self._compare(self._expected(preview, scope, before))

    def _expected(self, preview: RewindPreview, scope: RewindScope, before: Parts) -> Parts:
        expected = before
        point = preview.point
        target = preview.target
        if scope.conversation and point.entry in self.before_entry:
            earlier = self.before_entry[point.entry]
            expected = expected._replace(conversation=earlier.conversation, rows=earlier.rows)
        elif scope.conversation:
            expected = _before_step(expected, point.text)
        if target.cell is not None and target.scope.namespace:
            expected = expected._replace(namespace=self.before_cell[target.cell].namespace)
        if target.cell is not None and target.scope.files:
            cells = {cell for cell in self.before_cell if cell >= target.scope.file_cell}
            remaining_cells = cells - self.cells_without_files
            if remaining_cells:
                expected = expected._replace(files=self.before_cell[min(remaining_cells)].files)
            self.cells_without_files |= cells
        return expected

    def redo(self) -> None:
        if not self.redos:
            # Names can come again after a question for which nothing ran, and nothing else.
            before = self.look()
            with suppress(KernelError):
                self.it.session.undo.redo()
            after = self.look()
            assert after._replace(namespace="", files={}) == before._replace(namespace="", files={})
            return
        self.steps.append("redo")
        self.it.session.undo.redo()
        parts, self.cells_without_files = self.redos.pop()
        self._compare(parts)

    def _compare(self, expected: Parts) -> None:
        actual_values = self.look()._asdict()
        for name, value in expected._asdict().items():
            assert actual_values[name] == value, f"{name}: {actual_values[name]} instead of {value}"

    def go_on(self, count: int) -> None:
        actions = [self.run_cell] * 5 + [self.ask] * 2 + [self.rewind] * 4 + [self.redo] * 2
        for _ in range(count):
            self.rng.choice(actions)()
        resumed = PromptHandler()
        resumed.resume(self.it.store.records)
        assert resumed.hidden._replaced == self.it.session.agent.hidden._replaced


def _before_step(parts: Parts, code: str) -> Parts:
    """Return the conversation before a step of an answer, which is words and a cell."""
    token = _TOKEN.findall(code)[0]
    index = next(index for index, (_, text) in enumerate(parts.rows) if token in text)
    rows = parts.rows[: index - 1]
    remaining_tokens = {token for _, text in rows for token in _TOKEN.findall(text)}
    conversation = [token for token in parts.conversation if token in remaining_tokens]
    return parts._replace(rows=rows, conversation=conversation)


@contextmanager
def opened(folder: Path, service: Service) -> Iterator[Opened]:
    watching = FileWatching((str(folder),), (), str(folder.parent / "copies"), 200)
    settings = load_settings(model=OPENAI.spec, approval="auto", reflection="never")
    service.replies = [OPENAI.reply("Yes.")]
    it = Opened.make(settings, kernel=ProcessKernel(undo_steps=100, watching=watching))
    it.session.start()
    try:
        yield it
    finally:
        it.session.close()


def run_random_session(folder: Path, service: Service, seed: int, count: int = 25) -> None:
    """Let a session go on at random. Raises `AssertionError` with what it did."""
    with opened(folder, service) as it:
        random_session = RandomSession(it, service, folder, seed)
        try:
            random_session.start()
            random_session.go_on(count)
        except (AssertionError, KernelError) as error:
            steps = "\n".join(random_session.steps)
            raise AssertionError(f"seed {seed}: {error}\n{steps}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    chosen = parser.parse_args()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.sessions):
        with tempfile.TemporaryDirectory() as home, serving() as service:
            folder = Path(home, "project")
            folder.mkdir()
            os.chdir(folder)
            os.environ |= {
                "HOME": home,
                "OPENAI_API_KEY": "no-secret",
                "OPENAI_BASE_URL": f"{service.url}/v1",
            }
            try:
                run_random_session(folder, service, seed)
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
            os.chdir("/")
    print(f"{chosen.sessions} sessions, {failed} with a difference")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
