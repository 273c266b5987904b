"""MCP servers in the namespace: an object for each, with a function for each of its tools."""

from __future__ import annotations

import builtins
import difflib
import os
import threading
from contextlib import suppress
from typing import Any, Callable

from ..link.host import Host
from ..sandbox.caller_tools import plain_data
from ..stdlib import late_import
from ..values import displays
from ..values.rich_forms import MAX_PICTURE_BYTES, MIMES
from .text_tools import mark_as_text

# Pickles of earlier versions look for `OmittedArgument` here.
from .tool_functions import OmittedArgument as OmittedArgument
from .tool_functions import make_tool_function

_MAX_ARGUMENT_CHARS = 20_000_000
"""Characters of all arguments of a call."""


class ToolFailed(RuntimeError):
    """A tool of an MCP server failed, or its server did; the message is the tool's own, or a sentence."""


class Picture(bytes):
    """A picture's file that a tool has returned. It was shown when it came; `show()` shows it again."""

    mime = ""

    def show(self) -> None:
        """Show the picture in the transcript."""
        data = late_import("base64").b64encode(self).decode()
        displays.show(displays.Display(self.mime, data, repr(self) + "\n"))

    def __repr__(self) -> str:
        return f"<picture {self.mime}, {len(self):,} bytes>"


class Server:
    """An MCP server. Its tools are its methods: dir() lists them, help(server.tool) describes one, server["tool"] finds one by its own name.

    It is started when a tool is first used.
    """

    __slots__ = (
        *("__dict__", "_about", "_loader", "_lock"),
        *("_name", "_origin", "_revision", "_wires"),
    )

    def __init__(self, name: str, about: str, origin: Callable[[], int | None]) -> None:
        """Describe a server that is not started.

        Args:
            name: Its name in the settings.
            about: What it is.
            origin: Returns the calling cell.
        """
        self._origin = origin
        self._name = name
        self._about = about
        self._revision = -1
        """The number of the list of tools; -1 before the server has started."""
        self._lock = threading.Lock()
        self._loader: threading.Thread | None = None
        self._wires: dict[str, Any] = {}
        """The functions of the tools, by their names for the server."""
        self.__dict__["__doc__"] = f"The MCP server {name}: {about}\n\n{Server.__doc__}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._load()
        if name in self.__dict__:
            return self.__dict__[name]
        similar_names = difflib.get_close_matches(name, dir(self), n=1)
        hint = "tools.search(words) finds tools."
        if similar_names:
            hint = f"Did you mean {similar_names[0]}?"
        raise AttributeError(f"The MCP server {self._name} has no tool {name}. {hint}")

    def __getitem__(self, name: str) -> Any:
        if name not in self._wires:
            self._load()
        if name not in self._wires:
            raise KeyError(f"The MCP server {self._name} has no tool {name!r}.")
        return self._wires[name]

    def __dir__(self) -> list[str]:
        if self._revision < 0:
            self._load_quietly()
        return [name for name in list(self.__dict__) if name != "__doc__"]

    def __repr__(self) -> str:
        state = "starts when a tool is used"
        if self._revision >= 0:
            state = f"{len(self._wires):,} tools"
        return f"<MCP server {self._name}: {self._about}; {state}>"

    def __reduce__(self) -> Any:
        return server_named, (self._name,)

    def load_in_background(self) -> bool:
        """Start the server on a thread, once; returns whether it is starting."""
        with self._lock:
            if self._loader is None and self._revision < 0:
                self._loader = threading.Thread(
                    target=self._load_quietly, name=f"mcp-{self._name}", daemon=True
                )
                self._loader.start()
            return self._loader is not None and self._loader.is_alive()

    def _load_quietly(self) -> None:
        with suppress(RuntimeError):  # the next use of the server raises the error
            self._load()

    def _load(self) -> None:
        """Start the server, if it has not started, and get its tools. Raises `ToolFailed`."""
        answer = Host.call("mcp_tools", {"server": self._name})
        if "failed" in answer:
            raise ToolFailed(answer["failed"])
        self._replace(answer["revision"], answer["tools"])

    def _replace(self, revision: int, described: list[dict[str, Any]]) -> None:
        """Offer these tools.

        Args:
            revision: The number of their list.
            described: The tools, as the host describes them.
        """
        with self._lock:
            if revision == self._revision:
                return
            functions = {
                tool["name"]: make_tool_function(tool, self._name, self._call) for tool in described
            }
            doc = "\n".join(
                [
                    f"The MCP server {self._name}: {self._about}",
                    "",
                    f"Tools (help({self._name}.tool) shows more):",
                    *(f"    {tool['name']}: {tool['summary']}" for tool in described),
                ]
            )
            # In place: for other threads, no name may be missing for a moment.
            self.__dict__.update(functions, __doc__=doc)
            for name in self.__dict__.keys() - functions.keys() - {"__doc__"}:
                del self.__dict__[name]
            self._wires = {tool["wire"]: functions[tool["name"]] for tool in described}
            self._revision = revision

    def _call(self, wire: str, arguments: dict[str, Any]) -> Any:
        """Call a tool, and return its result: a value, or several, or None. Raises `ToolFailed`.

        Args:
            wire: The name of the tool for its server.
            arguments: The arguments by their names for the server.
        """
        texts = {
            name: os.fspath(value) if hasattr(type(value), "__fspath__") else value
            for name, value in arguments.items()
        }
        call = os.urandom(8).hex()
        request = {
            "server": self._name,
            "tool": wire,
            "arguments": plain_data(texts, "An argument", _MAX_ARGUMENT_CHARS),
            "call": call,
            "cell": self._origin(),
        }
        try:
            answer = Host.call("mcp_call", request)
        except RuntimeError:
            raise
        except BaseException:  # Ctrl+C, or the end of a search
            Host.call("mcp_cancel", {"call": call})
            raise
        if answer.get("revision", self._revision) != self._revision:
            self._load_quietly()  # the result is valid, even if the server has ended since
        if "failed" in answer:
            raise ToolFailed(answer["failed"])
        values = [_value(part) for part in answer["parts"]]
        if len(values) == 1:
            return values[0]
        return values or None


def server_named(name: str) -> Server:
    """Return the server of this name, or, for a saved variable, one that is not configured here."""
    server = builtins.__dict__.get(name)
    if isinstance(server, Server):
        return server
    return Server(name, "not configured", lambda: None)


class Tools:
    """The tools of all MCP servers."""

    def search(self, words: str, most: int = 20) -> str:
        """Return the tools whose names or descriptions fit some words, one a line: how each is called, and what it does.

        All servers are started for it. Example: print(tools.search("open issues")).
        """
        answer = Host.call("mcp_search", {"words": str(words), "most": int(most)})
        if isinstance(answer, dict):
            raise ToolFailed(answer["failed"])
        return mark_as_text(str(answer))

    def __repr__(self) -> str:
        return "<the tools of all MCP servers: tools.search(words) finds some>"


def make_objects(servers: list[dict[str, Any]], origin: Callable[[], int | None]) -> dict[str, Any]:
    """Create the objects of the namespace.

    Args:
        servers: The `name` of each server, and what it is `about`.
        origin: Returns the calling cell.
    """
    ToolFailed.__module__ = "builtins"  # so that tracebacks name it as code does
    objects: dict[str, Any] = {
        server["name"]: Server(server["name"], server["about"], origin) for server in servers
    }
    return {**objects, "tools": Tools(), "ToolFailed": ToolFailed}


def _value(part: dict[str, Any]) -> Any:
    """Return a part of a tool's answer as a value; a picture is shown. Raises `ToolFailed`."""
    if part["kind"] == "text":
        return mark_as_text(part["text"])
    if part["kind"] == "json":
        return part["value"]
    try:
        data = late_import("base64").b64decode(part["data"])
    except ValueError:
        raise ToolFailed("The server has sent data that is not base64.") from None
    if part["kind"] != "picture":
        return data
    picture = Picture(data)
    picture.mime = part["mime"] if part["mime"] in MIMES else ""
    if picture.mime and len(picture) <= MAX_PICTURE_BYTES:
        picture.show()
    return picture
