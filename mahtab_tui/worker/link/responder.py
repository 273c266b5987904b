"""Answers requests about the namespace while a cell runs."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable

from ..stdlib import importing_from, late_import, own_module
from .frames import Frame
from .process_facts import working_directory


class Responder:
    """Answers requests about the namespace, those that take long on threads of their own."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        namespace: dict[str, object],
        answers: dict[str, Callable[[Frame], Any]],
        handlers: dict[str, Callable[[Frame], object]],
        version: Callable[[], int | None] = lambda: None,
        last_cell_with_leftovers: Callable[[], int] = lambda: 0,
    ) -> None:
        """Answer no request yet.

        Args:
            send: Sends a reply.
            namespace: The user's namespace.
            answers: Further requests, with what returns the reply immediately.
            handlers: Requests that get a reply later, or none.
            version: Returns that of the namespace, if descriptions may be kept (see `Describer`).
            last_cell_with_leftovers: Returns the last cell without approval that has left code
                running; 0 if there is none.
        """
        self._last_cell_with_leftovers = last_cell_with_leftovers
        self._send = send
        self._namespace = namespace
        self._version = version
        self._describer: Any = None
        self._inspection: Any = None
        self._inspection_lock = threading.Lock()
        # On threads, because they may run user code or access a slow disk.
        self._side_threads: dict[str, Callable[[Frame], Any]] = {
            "inspect": self._inspect,
            "inspect_object": self._inspect_object,
            "describe": self._describe,
            "named_values": self._named_values,
            "result_doubts": self._result_doubts,
            "complete": self._complete,
            "explain": self._explain,
            "private_use": self._private_use,
            "names_read": self._names_read,
            "resolve_paths": self._resolve_paths,
            "files_changed_by_commands": self._files_changed_by_commands,
            "fingerprints": self._fingerprints,
            "installed": _is_installed,
            "packages": self._packages,
            "list_folder": self._list_folder,
        }
        self._answers = {**answers, "change_directory": _change_directory}
        self._handlers = {**handlers, "size": _set_screen_size}

    def handle(self, frame: Frame) -> None:
        """Answer a request, now or later. Whatever it contains, the next one is answered."""
        try:
            op = frame["op"]
            if op in self._side_threads:
                args = frame, self._side_threads[op]
                threading.Thread(target=self.answer, args=args, daemon=True).start()
            elif op in self._answers:
                self.answer(frame, self._answers[op])
            else:
                self._handlers[op](frame)
        except Exception as error:
            self._reply(frame, error=str(error))

    def answer(self, frame: Frame, work: Callable[[Frame], Any]) -> None:
        """Reply with what `work` returns for a request, or with its error."""
        try:
            value = work(frame)
        except BaseException as error:  # an object of the user's may raise anything; reply anyway
            self.fail(frame, error)
        else:
            self._reply(frame, value=value)

    def fail(self, frame: Frame, error: BaseException) -> None:
        """Reply with an error's message."""
        if isinstance(error, Exception):
            self._reply(frame, error=str(error) or type(error).__name__)
        else:
            self._reply(frame, error=f"{type(error).__name__} was raised.")

    def _reply(self, frame: Frame, **fields: object) -> None:
        self._send({"op": "reply", "id": frame.get("id"), **fields})

    # Each loads what it needs when it is asked first, because that takes time and memory.

    def _inspect(self, frame: Frame) -> object:
        name = frame["name"]
        if name not in self._namespace:
            raise LookupError(f"There is no variable named {name}.")
        return own_module("describing.detail").describe_detail(
            self._namespace, name, run_code=frame["run_code"]
        )

    def _inspect_object(self, frame: Frame) -> object:
        with self._inspection_lock:
            if self._inspection is None:
                self._inspection = own_module("inspection.inspection").Inspection(self._namespace)
        return self._inspection.answer(frame["request"])

    def _describe(self, frame: Frame) -> object:
        if self._describer is None:
            self._describer = own_module("describing.description").Describer(
                self._namespace, self._version
            )
        return self._describer.describe(frame["names"], frame["limit"])

    def _named_values(self, frame: Frame) -> object:
        return own_module("describing.named_values").named_values(
            self._namespace, frame["names"], frame["question"]
        )

    def _result_doubts(self, frame: Frame) -> object:
        return own_module("describing.result_doubts").result_doubts(
            self._namespace,
            frame["names"],
            frame["code"],
            frame["question"],
            frame["output"],
        )

    def _complete(self, frame: Frame) -> object:
        return own_module("completion.complete").complete(
            self._namespace, frame["code"], frame["cursor"]
        )

    def _explain(self, frame: Frame) -> object:
        return own_module("completion.complete").explain_at(
            self._namespace, frame["code"], frame["cursor"]
        )

    def _private_use(self, frame: Frame) -> object:
        return own_module("guard.private_use").private_use(
            self._namespace, frame["names"], frame["codes"]
        )

    def _names_read(self, frame: Frame) -> object:
        return own_module("guard.bindings").names_read(
            self._namespace, frame["name"], self._last_cell_with_leftovers()
        )

    def _fingerprints(self, frame: Frame) -> object:
        return own_module("guard.fingerprints").take_fingerprints(self._namespace, frame["names"])

    def _resolve_paths(self, frame: Frame) -> object:
        return own_module("guard.protected_places").resolve_paths(frame["texts"])

    def _files_changed_by_commands(self, frame: Frame) -> object:
        return own_module("guard.protected_commands").changed_files(frame["commands"])

    def _packages(self, frame: Frame) -> object:
        return own_module("describing.folder").installed_packages(frame["names"])

    def _list_folder(self, frame: Frame) -> object:
        return own_module("describing.folder").list_folder(frame["limit"])


def _set_screen_size(frame: Frame) -> None:
    # `shutil.get_terminal_size` checks these first.
    os.environ.update(COLUMNS=str(frame["columns"]), LINES=str(frame["lines"]))


def _change_directory(frame: Frame) -> str:
    os.chdir(os.path.expanduser(frame["path"]))
    return os.getcwd()


def _is_installed(frame: Frame) -> bool:
    """Return whether a module can be imported from anywhere except the working directory; import it
    if the request says so."""
    folder = working_directory()
    try:
        with importing_from([entry for entry in sys.path if entry not in ("", ".", folder)]):
            if not frame["load"]:
                return late_import("importlib.util").find_spec(frame["module"]) is not None
            late_import("importlib").import_module(frame["module"])
    except Exception:
        return False
    return True
