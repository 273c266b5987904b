"""What the tools answer, as structured output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Ending = Literal["ok", "error", "interrupted", "killed", "died", "declined", "running"]


class Name(BaseModel):
    """A name of the namespace, described from metadata only."""

    name: str
    type: str = ""
    summary: Annotated[str, Field(description="Shape, length, or the value of simple things")] = ""


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
    note: str = Field("", description="How it ended, in words; empty where there is nothing to say")
    value: str = Field("", description="The last expression's value")
    output: str = Field("", description="What it printed")
    error: str = Field("", description="The traceback, shortened")
    left_out: int = Field(0, description="Characters of the output that were left out")
    changes: list[ChangedName] = []
    printed_before: str = Field("", description="What threads and tasks had printed since the last call")
    pictures: int = Field(0, description="Pictures that come with the answer")
    cell: int = Field(0, description="Its number in the session")
    worker: int = Field(0, description="Process id of the worker")
    seconds: float = 0.0


class Workers(BaseModel):
    """A worker that took another one's place."""

    old_worker: int = Field(description="Process id; it is gone")
    new_worker: int = Field(description="Process id")
    executable: str


class Information(BaseModel):
    """What the session runs on, and what it holds."""

    mode: Literal["private", "shared"]
    python: str = Field(description="Version")
    executable: str
    environment: str = Field(description="The virtual or conda environment's folder; empty for the system's Python")
    project: str = Field(description="The nearest folder with a pyproject.toml; empty where there is none")
    cwd: str
    worker: int = Field(description="Process id")
    variables: list[Name]
    modules: list[str]
    cells: int = Field(description="Pieces of code that have run for you")
    busy_seconds: float
    worker_seconds: float = Field(description="Since the worker was started")
    others: list[str] = Field(description="What the person and other agents have run since you last asked")


class Activated(BaseModel):
    """The environment that the worker runs in now."""

    kind: str
    path: str
    python: str
    executable: str
    cwd: str
    worker: int


class PackageReport(BaseModel):
    """What the package manager did."""

    action: str
    commands: list[str]
    exit_code: int
    output: str
    note: str = ""


class LogState(BaseModel):
    """Where everything that is evaluated is written."""

    mode: Literal["auto", "file", "off"]
    path: str


class Mode(BaseModel):
    """Where code runs."""

    mode: Literal["private", "shared"]
    session: str = Field(description="The person's session; empty in private mode")
