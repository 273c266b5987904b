"""What a model gets with a question: what the question mentions, and what is new in the session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from mahtab_tui.agent.host import StoredMessage
from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.plans import CARRY_OUT_PLAN
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import UserAttachment, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.names import agent_name
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.prompt_sections import render_context
from mahtab_tui.llm.prompts import COMPUTE, PLANNING
from mahtab_tui.llm.surroundings import PACKAGES, asks_about_files, render_surroundings
from mahtab_tui.llm.variable_texts import UNCHANGED_KEY, VALUES_KEY
from mahtab_tui.session.attachments import Attachments, render_attachment
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.descriptions import VariableDescriptions
from mahtab_tui.session.folder_words import render_folder
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.stale_outputs import StaleOutputs

MAX_RECENT_CELLS = 10
"""Number of recent cells whose variables are described to the model."""
_MAX_READ_FILES = 400
"""Entries of the working directory that are read."""
MAX_LISTED_FILES = 40
"""Entries, or groups of files, that are listed."""
MAX_SENT_DATA_CHARS = 50_000
"""Characters of descriptions in which words of a question are searched."""

_FILE_ATTACHMENT = re.compile(r'<user-attachment [^<>]*label="@')
"""An attachment that is not a variable."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_COMMON_WORDS = frozenset(
    "what which with from that this have does many much there were the and for are how was all who why can you not head row column thi ha doe clas".split()
)
"""Words that say nothing about data, without an `s` at their end, as `_names_data` compares them."""


class QuestionContext:
    """Gathers the context of each question. One thread at a time asks a question, and calls it."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        prompt: PromptHandler,
        cells: Cells,
        attachments: Attachments,
        descriptions: VariableDescriptions,
        stale_outputs: StaleOutputs,
        pictures: dict[str, EncodedPicture],
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            prompt: Has what happened since the last question.
            cells: The session's cells.
            attachments: Reads what a question mentions.
            descriptions: Describes variables.
            stale_outputs: Knows which outputs no longer hold.
            pictures: Gets the attached pictures, by their ids.
        """
        self._runtime = runtime
        self._prompt = prompt
        self._cells = cells
        self._attachments = attachments
        self._descriptions = descriptions
        self._stale_outputs = stale_outputs
        self._pictures = pictures
        self._unsent_attachments: dict[int, str] = {}
        """Attachments as XML, by the turn of a question that is not sent yet."""
        self._packages: dict[str, str] = {}
        """Versions of the kernel's packages, as of the newest question."""
        self._sent_data = ""
        """Descriptions of variables that the model got, in lower case."""

    def attach(self, question: str, turn: int, is_withdrawn: Callable[[], bool]) -> None:
        """Gather and log what a question mentions. Waits.

        Args:
            question: The question.
            turn: Its turn.
            is_withdrawn: Whether the user has stopped the question, so that no more is read.
        """
        elements: list[str] = []
        for attachment in self._attachments.gather(question, is_withdrawn):
            picture = attachment.picture
            record = UserAttachment(
                escape_controls(attachment.text),
                turn=turn,
                picture=None if picture is None else picture.id,
                label=attachment.label,
                size=attachment.size,
                problem=attachment.problem,
            )
            elements.append(render_attachment(record))
            # The data of a picture is stored with its first record only.
            if picture is not None and picture.id not in self._pictures:
                self._pictures[picture.id] = picture
                record = record.changed(**picture._asdict())
            emit(self._runtime.log, record)
        self._unsent_attachments[turn] = "\n".join(elements)

    def take_attachments(self, turn: int) -> str:
        """Return the attachments of a question, which is about to be sent, as XML."""
        return self._unsent_attachments.pop(turn, "")

    def add_to(self, question: str, turn: int, conversation: str) -> StoredMessage:
        """Return a question with what the model needs to know about the session. Waits.

        Args:
            question: The question.
            turn: Its turn.
            conversation: The earlier conversation, whose descriptions of variables are not repeated.
        """
        attachments = self.take_attachments(turn)
        variables = self.describe_variables(question, conversation)
        self._remember_data(variables)
        sections = self._render_sections(question, attachments)
        about_data = self._asks_for_data(question, variables)
        # The answer may stand in an attached file, and need no variable.
        attaches_file = _FILE_ATTACHMENT.search(attachments) is not None
        return StoredMessage(
            "user",
            question,
            turn,
            context=make_encodable(sections),
            variables=variables,
            about_data=about_data,
            instruction=COMPUTE if about_data and not attaches_file else "",
            private=frozenset(self._prompt.hidden.private),
        )

    def _render_sections(self, question: str, attachments: str) -> str:
        """Return what precedes a question, and count it as told.

        Args:
            question: The question.
            attachments: What it mentions, as XML.
        """
        folder = self._look_around(question)
        activity = self._prompt.get_context(agent=agent_name(self._runtime.info.model))
        stale_cells = self._stale_outputs.tell(question, self._prompt.hidden)
        holding_cells = self._stale_outputs.tell_holding(self._prompt.hidden)
        sections = render_context(activity, attachments, folder, stale_cells, holding_cells)
        self._prompt.clear()
        if self._runtime.info.planning:
            sections = f"{sections}\n\n{PLANNING}".lstrip()
        return sections

    def _asks_for_data(self, question: str, variables: Mapping[str, str]) -> bool:
        """Return whether the answer to a question has to be computed from variables.

        Args:
            question: The question.
            variables: Descriptions of variables for it, by their names.
        """
        # Neither a plan nor a step of one is an answer.
        if self._runtime.info.planning or question.startswith(CARRY_OUT_PLAN):
            return False
        return VALUES_KEY in variables or self._names_data(question)

    def describe_variables(self, question: str, conversation: str) -> dict[str, str]:
        """Describe variables for a question, by their names; see `AgentHost`."""
        recent_cells = list(self._cells.finished)[-MAX_RECENT_CELLS:]
        codes = [started.text for started, _ in recent_cells]
        texts = self._descriptions.for_question(question, codes, conversation)
        return {name: make_encodable(text) for name, text in texts.items()}

    def surroundings(self) -> str:
        """Describe where and when code runs, for the model."""
        info = self._runtime.kernel.info()
        return render_surroundings(info.cwd, info.python, info.host, self._packages)

    def _remember_data(self, variables: dict[str, str]) -> None:
        """Keep the newest descriptions that the model gets."""
        descriptions = [
            text for key, text in variables.items() if key not in (UNCHANGED_KEY, VALUES_KEY)
        ]
        sent_data = "\n".join([self._sent_data, *descriptions]).casefold()
        self._sent_data = sent_data[-MAX_SENT_DATA_CHARS:]

    def _names_data(self, question: str) -> bool:
        """Return whether a word of a question occurs in the descriptions that the model got."""
        # Plurals are searched in the singular.
        words = {word.casefold().rstrip("s") for word in _WORD.findall(question)}
        return any(word in self._sent_data for word in words - _COMMON_WORDS)

    def _look_around(self, question: str) -> str:
        """Read the kernel's packages, and return the files in the working directory if the question
        is about files. Waits."""
        kernel = self._runtime.kernel
        with suppress(KernelError):
            self._packages = kernel.packages(PACKAGES)
            if asks_about_files(question):
                return render_folder(kernel.list_folder(_MAX_READ_FILES), MAX_LISTED_FILES)
        return ""
