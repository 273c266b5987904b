"""The session's agent."""

from __future__ import annotations

import base64
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mahtab_tui.agent.host import (
    ApprovalRequest,
    ConversationSummary,
    ExecutionResult,
    StoredMessage,
)
from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import (
    PICTURES,
    Agent,
    Approval,
    AssistantChat,
    Decision,
    Hide,
    Notice,
    NotRestored,
    Record,
    Replace,
    Review,
    Summary,
    UserAttachment,
    UserChat,
    emit,
    warn,
)
from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.kernel.base import CellResult, KernelError, Lock, Status
from mahtab_tui.kernel.cells import inverted_changes
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.pictures import EncodedPicture, PictureError, scale_picture
from mahtab_tui.llm.prompts import (
    COMPUTE,
    PACKAGES,
    PLANNING,
    asks_about_files,
    edited_note,
    render_context,
    render_surroundings,
    undone_note,
)
from mahtab_tui.session.attachments import render_attachment, render_folder
from mahtab_tui.session.cells import YOU, name_cells, not_restored_rows, restored_rows
from mahtab_tui.session.descriptions import VariableDescriptions
from mahtab_tui.session.info import Permission, ask_approval
from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.session.code_rules import CodeRules
    from mahtab_tui.session.components import Components

_REVIEW_STATES = {"keep": "kept", "all": "kept", "undo": "undone", "stop": "stopped"}
_PLAN = "This is a plan: nothing changes until the user accepts it."
_RECENT_CELLS = 10
"""Number of recent cells whose variables are described to the model."""
_MAX_FILES = 40
"""Entries of the working directory that are listed."""
_MAX_STEP_PICTURES = 2
"""Number of figures that the model gets from a step."""
_STEP_PICTURE_SIDE = 768
"""Pixels of their longer side."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_MOST_DATA = 50_000
"""Maximum characters of descriptions in which words of a question are searched."""
_COMMON = frozenset(
    "what which with from that this have does many much there were the and for are how was all who why can you not head row column thi ha doe clas".split()
)
"""Words that say nothing about data."""


class SessionAgent:
    """Takes questions from the inbox, lets the agent answer them, and is the agent's host."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._kernel = parts.kernel
        self._private = parts.private
        self._descriptions = VariableDescriptions(
            parts.kernel, parts.private, lambda name: parts.cells.provenance.is_made_by(name, YOU)
        )
        parts.log.addHandler(self._descriptions)
        self.log = parts.log
        self.info = parts.info
        self.secrets = parts.secrets
        self.spending = parts.spending
        self.approvals = parts.approvals
        self._agent: ReplAgent | None = None
        self._agent_lock = threading.Lock()
        self._change_lock = threading.Lock()
        self._warm_up_lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="agent", daemon=True)
        self._withdrawn = threading.Event()
        """Set when the user stops the question."""
        self.cancelled = threading.Event()
        self.hidden = parts.prompt.hidden
        self.pictures = dict(_pictures(parts.past))
        self._allowed_private: tuple[str, ...] = ()
        """The private variables of the next code, which the user was asked about."""
        self._reviewed = False
        """Whether the changes of the next code are reviewed."""
        self._approved = False
        """Whether the user has approved the next code."""
        self._fork_result: CellResult | None = None
        """The next code's result if it has already run in a locked fork."""
        questions = (each for each in parts.past if isinstance(each, UserChat | AssistantChat))
        self.last = max((question.turn or 0 for question in questions), default=0)
        self._numbers = itertools.count(self.last + 1)
        self._attached: dict[int, str] = {}
        """Attachments as XML, by question not sent yet."""
        self._turns = 0
        self._waiting_cells = 0
        self._open_request: str | None = None
        self._packages: dict[str, str] = {}
        """Versions of the kernel's packages, as of the newest question."""
        self._picture_step = (0, 0)
        """The turn and step that last drew figures."""
        self._step_pictures = 0
        """Number of figures that the model gets from that step."""
        self._sent_data = ""
        """Descriptions of variables that the model got, in lower case."""

    @cached_property
    def rules(self) -> CodeRules:
        from mahtab_tui.session.code_rules import CodeRules

        return CodeRules(self.info, self._kernel, self._parts.cells.still_means_same)

    @property
    def party(self) -> str:
        return self.info.party

    @property
    def last_cell(self) -> int:
        return self._parts.cells.last

    def new_turn(self) -> int:
        self.last = next(self._numbers)
        return self.last

    @property
    def in_turn(self) -> bool:
        return self._turns > 0

    @contextmanager
    def turn(self, *, from_cell: bool = False) -> Iterator[None]:
        """from_cell: a cell waits for the answer, so that the agent's cells run inside it."""
        self._turns += 1
        self._waiting_cells += from_cell
        try:
            yield
        finally:
            self._turns -= 1
            self._waiting_cells -= from_cell

    def start(self) -> None:
        self._thread.start()

    def warm_up(self) -> None:
        """Load on a thread what an answer needs."""

        def prepare() -> None:
            # Errors are reported when the question is asked.
            with self._warm_up_lock, suppress(ModelError):
                self.agent.prepare()

        if not self._warm_up_lock.locked():
            start_thread("agent-warm-up", prepare)

    def ask(self, prompt: str, *, attach: bool = False, from_cell: bool = False) -> str:
        """Ask, and wait for the final answer. Raises `ModelError`."""
        prompt = self.secrets.mask(prompt)
        with self.turn(from_cell=from_cell):
            self._withdrawn.clear()
            # Log the question first, because creating the agent takes a while.
            turn = self.new_turn()
            emit(self.log, UserChat(make_encodable(prompt), turn=turn))
            self.spending.name_question(turn, prompt)
            self._report("thinking", turn)
            try:
                if attach:
                    self._attach(prompt, turn)
                agent = self.agent
            except Exception:
                self._report("failed", turn)
                raise
            if self._withdrawn.is_set():
                self._report("stopped", turn)
                return ""
            return agent.ask_sync(prompt, shown=turn)

    @property
    def agent(self) -> ReplAgent:
        """Created on first use. Raises `ModelError`."""
        with self._agent_lock:
            if self._agent is None:
                self._agent = self._make_agent()
            return self._agent

    def continue_from(self, agent: ReplAgent) -> None:
        self._agent = agent

    @property
    def model(self) -> str | BaseChatModel:
        if self._parts.by_program and self._agent is not None:
            return self._agent.model
        return self.info.model

    def stop(self) -> None:
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.stop()

    def change(self, change: Callable[[ReplAgent], None]) -> None:
        """Change the agent, if there is one, on a thread: this may wait for the turn's end."""

        def work() -> None:
            try:
                # `change` reads the settings when it has the lock, so that the newest ones win.
                with self._change_lock:
                    if self._agent is not None:
                        change(self._agent)
            except ModelError as error:
                emit(self.log, Notice(str(error), level="error"))

        start_thread("agent-change", work)

    def compact(self, keep: str) -> None:
        """Summarise the conversation before the last question, on a thread. keep: what to
        include."""

        def work() -> None:
            with self.turn():
                try:
                    failure = self.agent.compact(self.secrets.mask(keep), self.last)
                except ModelError as error:
                    failure = str(error).rstrip(".")
                if failure:
                    self._report("failed", self.last)
                    text = f"Nothing was summarised: {failure}. The conversation stays as it was."
                    warn(self.log, text)
                else:
                    self._report("stopped" if failure is None else "done", self.last)

        start_thread("agent-compact", work)

    def close(self) -> None:
        """Stop the current turn and the thread. Close the inbox first."""
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.close()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _make_agent(self) -> ReplAgent:
        if self._parts.by_program:
            raise ModelError("ask() needs an agent: make one with create_repl_agent(session).")
        with IMPORTS.turn():
            from mahtab_tui.agent.repl_agent import ReplAgent

        settings, models, past = self._parts.settings, self._parts.models, self._parts.past
        return ReplAgent(
            self,
            model=models.make(),
            reflection_llm=models.reflection(),
            reflection=settings.reflection,
            output_answers=settings.output_answers,
            loop=settings.loop,
            max_turns=settings.max_turns,
            tools=self._parts.knowledge.toolset,
            history=load_messages(past),
            max_history=settings.max_history,
            summary=load_summary(past),
        )

    def _report(self, state: Literal["thinking", "done", "failed", "stopped"], turn: int) -> None:
        emit(self.log, Agent(state=state, turn=turn, step=0, party=self.party))

    def _serve(self) -> None:
        while (item := self._parts.inbox.next_item("ask")) is not None:
            try:
                self.ask(item.text, attach=True)
            except ModelError as error:
                # The agent could not be created, and nothing has reported that yet.
                if self._agent is None:
                    emit(self.log, Notice(f"{error} /model chooses another one.", level="error"))
            except Exception as error:  # the thread's outermost frame
                text = f"The question could not be answered: {type(error).__name__}: {error}"
                emit(self.log, Notice(text, level="error"))

    # Running code

    def execute(self, request: ApprovalRequest, code: str) -> ExecutionResult:
        result = self._fork_result
        self._fork_result = None
        if result is None:
            result = self._run(request, code, None if self._approved else "guard")
        is_private = self._private.is_private_cell(result.cell)
        output = PRIVATE_CELL if is_private else result.output
        if result.detail:
            output = f"{output}\n{result.detail}".strip()

        has_ended = result.status in (Status.KILLED, Status.DIED) or self.cancelled.is_set()
        decision = Decision("keep")
        if self._reviewed and not has_ended:
            decision = self._review(result.cell, request.request)
        if decision.action == "stop":
            self.cancelled.set()
        undone = decision.action == "undo"
        note = "" if code == request.code else edited_note(request.block)

        pictures: Sequence[str] = ()
        variables = ""
        if not (has_ended or undone):
            printed = bool(result.output.strip())
            with suppress(KernelError):
                variables = self._descriptions.for_changes(result.changes, printed=printed)
            if not is_private:
                pictures = self._drawn_pictures(request, result)
        return ExecutionResult(
            step=request.step,
            block=request.block,
            cell=result.cell,
            code=code,
            output=make_encodable(output),
            is_error=result.status is not Status.OK,
            status=str(result.status),
            note=undone_note(request.block, decision.reason) if undone else note,
            rewritten=result.rewritten,
            undone=undone,
            variables=make_encodable(variables),
            pictures=pictures,
        )

    def _drawn_pictures(self, request: ApprovalRequest, result: CellResult) -> Sequence[str]:
        """Return the ids of the newest figures of a cell for a model that can see, up to the limit
        of the step."""
        sees_pictures = self._agent is not None and self._agent.sees_pictures
        if not (self._parts.settings.return_pictures and sees_pictures):
            return ()
        step = (request.turn, request.step)
        if step != self._picture_step:
            self._picture_step = step
            self._step_pictures = 0
        picture_ids: list[str] = []
        figures = [display for display in result.displays if display.mime in PICTURES]
        for display in figures[-_MAX_STEP_PICTURES:]:
            if self._step_pictures == _MAX_STEP_PICTURES:
                break
            with suppress(PictureError, ValueError):
                picture = scale_picture(base64.b64decode(display.data), _STEP_PICTURE_SIDE)
                self.pictures[picture.id] = picture
                picture_ids.append(picture.id)
                self._step_pictures += 1
        return picture_ids

    def _run(self, request: ApprovalRequest, code: str, lock: Lock | None) -> CellResult:
        return self._parts.cells.run(
            code,
            origin="assistant",
            party=self.party,
            nested=self._waiting_cells > 0,
            is_cancelled=self.cancelled.is_set,
            allowed=self._allowed_private,
            lock=lock,
            turn=request.turn,
            step=request.step,
            block=request.block,
        )

    def _run_in_fork(self, request: ApprovalRequest, lock: Lock) -> str:
        """Return what code needs beyond the lock, as a clause; if nothing, `execute` uses its
        result."""
        result = self._run(request, request.code, lock)
        self._fork_result = None if result.needs else result
        return result.needs

    def interrupt(self) -> None:
        if (asked := self._open_request) is not None:
            self.approvals.cancel(asked)
        if self._parts.cells.assistant_runs:
            self._kernel.interrupt()

    # Asking the user

    def decide(self, request: ApprovalRequest) -> Decision:
        action, reason = self._permit(request)
        record = request.record(self.party)
        if action == "allow":
            return Decision("run")
        if action == "deny":
            emit(self.log, record.changed(state="refused", reason=reason))
            warn(self.log, f"Code from {self.party} was not run. {reason}")
            return Decision("refuse", reason=reason)
        asked = record.changed(why=reason or None)
        self._open_request = request.request
        try:
            decision = ask_approval(self.log, self.approvals, asked, self.cancelled.is_set)
        finally:
            self._open_request = None
        self._approved = decision is not None and decision.action in ("run", "all")
        return self._apply_all(decision or Decision("stop"))

    def take_added_words(self, turn: int) -> list[str]:
        texts: list[str] = []
        for item in self._parts.inbox.take_joining():
            words = make_encodable(self.secrets.mask(item.text))
            emit(self.log, UserChat(words, turn=turn))
            self._attach(words, turn)
            attachments = render_context("", self._attached.pop(turn, ""))
            texts.append(f"{attachments}\n\n{words}".lstrip())
        return texts

    def confirm_more_steps(self, turn: int, steps: int) -> bool:
        usage = self.spending.question(turn)
        tokens = usage.input_tokens + usage.output_tokens
        so_far = f"{steps:,} {'step' if steps == 1 else 'steps'}, {tokens:,} tokens"
        if usage.cost:
            so_far += f", ${usage.cost:.2f}"
        if not self._parts.frontend.can_ask:
            warn(self.log, f"The question reached its limit: {so_far} (max_turns).")
            return False

        request = f"{turn}.steps-{steps}"
        asked = Approval(
            f"# Go on with this question? So far: {so_far}",
            request=request,
            party=self.party,
            is_code=False,
        )
        self._open_request = request
        try:
            decision = ask_approval(self.log, self.approvals, asked, self.cancelled.is_set)
        finally:
            self._open_request = None
        if decision is None or decision.action == "stop":
            self.cancelled.set()
        return decision is not None and decision.action in ("run", "all")

    def _apply_all(self, decision: Decision) -> Decision:
        if decision.action == "all":
            self.info.set_approval("auto")
        return decision

    def _permit(self, request: ApprovalRequest) -> Permission:
        """Decide about code; read-only code may run here."""
        info = self.info
        can_ask = self._parts.frontend.can_ask
        self._fork_result = None
        self._reviewed = False
        self._approved = False
        private = self._private.uses(request.code)
        self._allowed_private = private
        cannot_review = ""
        if info.approval == "review":
            waits = "another cell waits for this answer" if self._waiting_cells else ""
            cannot_review = waits or self._kernel.cannot_undo
        trusted = info.approval != "ask" and not cannot_review
        permission = self.rules.permission(
            request.code,
            author=self.party,
            private=private,
            trusted=trusted,
            planning=info.planning,
            can_ask=can_ask or info.planning,
        )
        if info.planning:
            return self._plan(request, permission)
        if permission.action == "lock":
            needs = self._run_in_fork(request, "keep")
            return self.rules.ask(needs, can_ask=can_ask) if needs else Permission("allow")
        if permission.action == "allow" and trusted:
            self._reviewed = info.approval == "review"
            info.warn_about_permissions()
        if permission.action == "ask" and not permission.reason:
            return Permission("ask", cannot_review)
        return permission

    def _plan(self, request: ApprovalRequest, permission: Permission) -> Permission:
        if permission.action == "deny":
            return permission
        reason = permission.reason or self.rules.lock_obstacle()
        if not reason:
            reason = self._run_in_fork(request, "discard")
        if reason:
            return Permission("deny", f"{_PLAN} This code may not run in it: {reason}.")
        return Permission("allow")

    def _review(self, cell: int, request: str) -> Decision:
        """Wait until the user keeps or undoes what a cell and those after it have changed; `keep`
        if they changed nothing."""
        while True:
            asked = self._changes(cell, Review(request=f"{request}.review", party=self.party))
            if not (asked.changes or asked.not_restored):
                return Decision("keep")
            emit(self.log, asked.changed(state="waiting"))
            self._open_request = asked.request
            try:
                decision = self.approvals.wait(asked.request, self.cancelled.is_set)
            except CancelledError:
                decision = Decision("stop")
            finally:
                self._open_request = None
            if decision.action == "undo" and not self._undo_cells(asked.cells):
                continue
            state = _REVIEW_STATES[decision.action]
            emit(self.log, asked.changed(state=state, reason=decision.reason))
            return self._apply_all(decision)

    def _changes(self, cell: int, about: Review) -> Review:
        about = about.changed(cells=self._parts.undo.cells_from(cell))
        try:
            restoration = self._kernel.preview_undo(cell)
        except KernelError as error:
            unknown = NotRestored("", f"The changes are unknown. {error}")
            return about.changed(not_restored=(unknown,))
        return about.changed(
            changes=restored_rows(inverted_changes(restoration)),
            not_restored=not_restored_rows(restoration),
        )

    def _undo_cells(self, cells: tuple[int, ...]) -> bool:
        """Undo cells, unless others have run since, whose changes the user has not seen."""
        undo = self._parts.undo
        if (now := undo.cells_from(cells[0])) != cells:
            text = f"Another cell has run since. An undo would now cover {name_cells(now)}."
            warn(self.log, text)
            return False
        try:
            undo.undo(cells[0], during_turn=True)
        except KernelError as error:
            emit(self.log, Notice(f"Nothing was undone. {error}", level="error"))
            return False
        return True

    # The question's context

    def _attach(self, question: str, turn: int) -> None:
        elements = []
        gathered = self._parts.attachments.gather(question, self._withdrawn.is_set)
        for label, size, text, problem, picture in gathered:
            about: Any = {"label": label, "size": size, "problem": problem}
            id = picture and picture.id
            record = UserAttachment(escape_for_model(text), turn=turn, picture=id, **about)
            elements.append(render_attachment(record))
            if picture and id and id not in self.pictures:
                self.pictures[id] = picture
                record = record.changed(**picture._asdict())
            emit(self.log, record)
        self._attached[turn] = "\n".join(elements)

    def add_context(self, turn: int, question: str, known: str) -> StoredMessage:
        prompt = self._parts.prompt
        attached = self._attached.pop(turn, "")
        variables = self.describe_variables(question, known)
        self._sent_data = "\n".join([self._sent_data, *variables.values()]).casefold()[-_MOST_DATA:]
        folder = self._look_around(question)
        sections = render_context(prompt.get_context(), attached, folder)
        prompt.clear()
        if self.info.planning:
            sections = f"{sections}\n\n{PLANNING}".lstrip()
        # Words that may name data, in lower case and singular.
        words = {word.casefold().rstrip("s") for word in _WORD.findall(question)} - _COMMON
        about_data = any(word in self._sent_data for word in words)
        return StoredMessage(
            "user",
            question,
            turn,
            context=make_encodable(sections),
            variables=variables,
            instruction=COMPUTE if about_data and not self.info.planning else "",
            private=frozenset(self.hidden.private),
        )

    def describe_variables(self, question: str, conversation: str) -> dict[str, str]:
        recent_cells = list(self._parts.cells.finished)[-_RECENT_CELLS:]
        codes = [started.text for started, _ in recent_cells]
        texts = self._descriptions.for_question(question, codes, conversation)
        return {name: make_encodable(text) for name, text in texts.items()}

    def surroundings(self) -> str:
        info = self._kernel.info()
        return render_surroundings(info.cwd, info.python, info.host, self._packages)

    def _look_around(self, question: str) -> str:
        """Read the kernel's packages, and return the files in the working directory if the question
        is about files. Waits."""
        with suppress(KernelError):
            self._packages = self._kernel.packages(PACKAGES)
            if asks_about_files(question):
                return render_folder(self._kernel.list_folder(_MAX_FILES))
        return ""

    @property
    def folder(self) -> str:
        return self._kernel.info().local_folder


def _pictures(past: Sequence[Record]) -> Iterator[tuple[str, EncodedPicture]]:
    for record in past:
        match record:
            case UserAttachment(
                picture=str(id),
                mime=str(mime),
                data=str(data),
                width=int(width),
                height=int(height),
            ):
                yield id, EncodedPicture(mime, data, width, height)


def load_messages(past: Sequence[Record]) -> list[StoredMessage]:
    attached: dict[int | None, list[str]] = {}
    for record in past:
        if isinstance(record, UserAttachment):
            attached.setdefault(record.turn, []).append(render_attachment(record))
    messages: list[StoredMessage] = []
    for record in past:
        if isinstance(record, UserChat):
            context = render_context("", attachments="\n".join(attached.get(record.turn, [])))
            messages.append(StoredMessage("user", record.text, record.turn, None, context))
        elif isinstance(record, AssistantChat):
            messages.append(StoredMessage("assistant", record.text, record.turn, record.step))
    return messages


def load_summary(past: Sequence[Record]) -> ConversationSummary | None:
    """Return the summary of a resumed conversation, unless the user has since hidden or replaced a
    part of it."""
    made: ConversationSummary | None = None
    later: set[str] = set()
    for record in past:
        if isinstance(record, Summary) and record.text:
            made, later = ConversationSummary(record.turn, record.text), set()
        elif isinstance(record, Hide | Replace) and record.entry not in later:
            made = None
        elif entry := record.entry_name:
            later.add(entry)
    return made
