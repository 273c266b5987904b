"""The records of the bus, one class for each tag. Import this as a module, so that a reader
sees that a class is a record: ``records.KernelRecord(state="idle")``."""

from mahtab_tui.bus.records.answers import (
    Agent,
    AgentSession,
    AnswerFigure,
    AssistantChat,
    AssistantChatStream,
    AssistantReading,
    AssistantThought,
    AssistantThoughtStream,
    AssistantTool,
    LastConversation,
    ModelRecord,
    Summary,
    UserAttachment,
    UserChat,
)
from mahtab_tui.bus.records.approvals import Approval, Decision, Input, Review
from mahtab_tui.bus.records.cells import (
    OUTPUT_TAGS,
    PICTURE_MIMES,
    AssistantReplIn,
    AssistantReplOut,
    AssistantReplOutStream,
    CellRecord,
    DisplayRecord,
    FileChanges,
    Namespace,
    ReplIn,
    ReplOut,
    ReplOutStream,
    Restore,
    Undo,
    UserReplIn,
    UserReplOut,
    UserReplOutStream,
)
from mahtab_tui.bus.records.log import RecordHandler, emit, get_record, warn
from mahtab_tui.bus.records.notebooks import (
    NotebookCell,
    NotebookOpened,
    NotebookOutput,
    NotebookWritten,
)
from mahtab_tui.bus.records.record import (
    INDEXED_INPUT_CHARS,
    INDEXED_OUTPUT_CHARS,
    KINDS,
    Record,
    Stream,
    encode,
    hints,
)
from mahtab_tui.bus.records.searches import (
    SearchBackOff,
    SearchBegin,
    SearchChat,
    SearchChatStream,
    SearchFanOut,
    SearchFinal,
    SearchRecord,
    SearchReplIn,
    SearchReplOut,
    SearchTurn,
    Spans,
)
from mahtab_tui.bus.records.session import (
    Branch,
    Hide,
    KernelRecord,
    Notice,
    Private,
    Queue,
    QueueItem,
    Replace,
    SessionRecord,
    SkillRecord,
)
from mahtab_tui.bus.records.usage import Usage, Window
