"""What the tools answer, as structured output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from mahtab_tui.bus.told import told

Ending = Literal["ok", "error", "interrupted", "killed", "died", "declined", "running"]


NAME = 200
"""Characters of a name or of a type's name that are told: code can make longer ones."""

Text = Annotated[str, AfterValidator(told)]
"""What code, files or the person said. Without `told` one lone surrogate in it would end the connection: UTF-8 cannot carry that."""


def _short(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= NAME else text[: NAME - 1] + "…"


ShortText = Annotated[Text, AfterValidator(_short)]


class Name(BaseModel):
    """A name of the namespace, described from metadata only."""

    name: ShortText
    type: ShortText = ""
    summary: Annotated[Text, Field(description="Shape, length, or the value of simple things")] = ""


class ChangedName(Name):
    """What the cell did to one name."""

    change: Literal["added", "rebound", "changed", "perhaps", "deleted"] = Field(
        description="changed: the same object, visibly different; perhaps: it may have been changed in place"
    )


class Evaluation(BaseModel):
    """What became of one piece of code."""

    status: Ending = Field(
        description="interrupted: stopped, its state is kept; killed: it did not react, so the worker was killed and its state is gone; "
        "died: the worker ended by itself; declined: the person did not let it run; running: it goes on in spite of the interrupt"
    )
    timed_out: bool = Field(False, description="Its time was over before it ended")
    ran: Text = Field("", description="The code that ran, where the person had changed it; empty where it ran as it was")
    note: Text = Field("", description="How it ended, in words; empty where there is nothing to say")
    value: Text = Field("", description="The last expression's value")
    output: Text = Field("", description="What it printed")
    error: Text = Field("", description="The traceback, shortened")
    left_out: int = Field(0, description="Characters of the output that were left out")
    changes: list[ChangedName] = []
    changes_left_out: int = Field(0, description="Changed names that are not listed")
    printed_before: Text = Field("", description="What threads and tasks had printed since the last call")
    pictures: int = Field(0, description="Pictures that come with the answer")
    cell: int = Field(0, description="Its number in the session")
    worker: int = Field(0, description="Process id of the worker")
    seconds: float = 0.0


class Workers(BaseModel):
    """A worker that took another one's place."""

    old_worker: int = Field(description="Process id; it is gone")
    new_worker: int = Field(description="Process id")
    executable: Text


class Information(BaseModel):
    """What the session runs on, and what it holds."""

    mode: Literal["private", "shared"]
    python: Text = Field(description="Version")
    executable: Text
    environment: Text = Field(description="The virtual or conda environment's folder; empty for the system's Python")
    project: Text = Field(description="The nearest folder with a pyproject.toml; empty where there is none")
    cwd: Text
    worker: int = Field(description="Process id")
    variables: list[Name]
    modules: list[ShortText]
    cells: int = Field(description="Pieces of code that have run for you")
    busy_seconds: float
    worker_seconds: float = Field(description="Since the worker was started; in shared mode since you joined")
    others: list[Text] = Field(description="What the person and other agents have run since you last asked")


class Activated(BaseModel):
    """The environment that the worker runs in now."""

    kind: Text
    path: Text
    python: Text
    executable: Text
    cwd: Text
    worker: int


class PackageReport(BaseModel):
    """What the package manager did."""

    action: Text
    commands: list[Text]
    exit_code: int
    output: Text
    note: Text = ""


class LogState(BaseModel):
    """Where everything that is evaluated is written."""

    mode: Literal["auto", "file", "off"]
    path: Text


class Mode(BaseModel):
    """Where code runs."""

    mode: Literal["private", "shared"]
    session: Text = Field(description="The person's session; empty in private mode")
