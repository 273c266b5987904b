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
