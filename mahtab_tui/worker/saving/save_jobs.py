"""What the kernel saves and restores of its namespace: when the host asks for it, and by itself
while there is no host.

`keeper.Keeper` does the work. It is loaded when it is needed first."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

from ..link.channel import Channel
from ..link.frames import Frame
from ..stdlib import own_module

if TYPE_CHECKING:
    from ..link.backlog import EventBacklog
    from ..link.interrupts import Interrupts
    from ..undo.checkpoint_process import Checkpoint
    from ..undo.checkpoint_server import Rescue
    from .keeper import Keeper

SAVE_TIMEOUT_S = 4.0
"""Seconds that the kernel's end waits for variables that are being saved."""


class SaveJobs:
    """Saves one namespace and restores it. Used on the main thread, except for what says otherwise."""

    def __init__(
        self,
        namespace: dict[str, object],
        hidden_lines: list[str],
        channel: Channel,
        backlog: EventBacklog | None,
    ) -> None:
        """Begin without settings: nothing is saved before `prepare`.

        Args:
            namespace: The user's namespace.
            hidden_lines: Lines typed hidden, which are not saved; may grow.
            channel: Tells whether there is a host.
            backlog: What the next host needs to know; None if the kernel ends with its host.
        """
        self.is_outdated = False
        """Whether a cell has run since variables were saved last."""
        self._namespace = namespace
        self._hidden_lines = hidden_lines
        self._channel = channel
        self._backlog = backlog
        self._settings: Frame = {}
        """The host's settings for `Keeper`; empty if variables are not saved."""
        self._initial_namespace: dict[str, object] = {}
        """The namespace as it was when the settings came, which is not saved."""
        self._keeper: Keeper | None = None
        self._last_request: Frame = {"carried": None, "lost": []}
        """The host's newest request to save."""
        self._restored_files: set[str] = set()
        """Files whose variables are all in the namespace, or were: a cell may have deleted them."""
        self._unattended_writer: Checkpoint | None = None
        """The process that saves variables now without a host."""
        self._unattended_thread: threading.Thread | None = None
        """The thread that waits for this process."""

    @property
    def folder(self) -> str:
        """Where variables are saved; empty if they are not."""
        return str(self._settings.get("folder", ""))

    @property
    def is_saving_unattended(self) -> bool:
        """Whether variables are being saved without a host. Any thread may ask."""
        return self._unattended_writer is not None

    def prepare(self, frame: Frame) -> None:
        """Save with these settings of the host from now on. Called by the control thread."""
        folder = os.path.expanduser(frame["folder"])
        if folder != frame["folder"]:
            # The host does not know the home folder here.
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        self._settings = {**frame, "folder": folder, "kernel": os.urandom(8).hex()}
        self._initial_namespace = dict(self._namespace)

        if os.path.isdir(folder):
            # What cannot be read is reported when it is to be restored or saved.
            with suppress(OSError, own_module("saving.folder").FolderError):
                self.load_keeper().take_over(wait=frame["wait"])

    def index(self, frame: Frame) -> object:
        """Return what is saved. Called by the control thread."""
        return self.load_keeper().index()

    def load_keeper(self) -> Keeper:
        """Return what saves and restores.

        The control thread calls this before it queues a job for it.
        """
        if self._keeper is None:
            self._keeper = own_module("saving.keeper").Keeper(
                self._namespace, self._settings, self._initial_namespace, self._hidden_lines
            )
        return self._keeper

    def save(self, frame: Frame, answer: Callable[[Frame, Callable[[Frame], Any]], None]) -> None:
        """Save the variables that the host names, in another process.

        Args:
            frame: The host's request.
            answer: Replies to a request with what a function returns for it. Called by another thread
                once the variables are saved.
        """
        self.is_outdated = False
        self._last_request = {"carried": frame["carried"], "lost": frame["lost"]}
        if self._backlog is not None:
            self._backlog.saved = self._last_request
        if self._unattended_writer is not None:
            self._unattended_writer.end()
        try:
            writer = self.load_keeper().start_writing(frame)
        except OSError as error:
            reason = f"the kernel cannot be forked ({error.strerror})"
            answer(frame, lambda frame: {"error": reason})
            return
        finish = own_module("saving.keeper").finish
        threading.Thread(
            target=answer, args=(frame, lambda frame: finish(writer)), daemon=True
        ).start()

    def save_unattended(self) -> None:
        """Save what cells have changed, if there is no host that would ask for it."""
        is_alone = self._backlog is not None and self._channel.detached
        if not (is_alone and self.is_outdated and self._settings):
            return
        self.is_outdated = False
        with suppress(OSError):
            writer = self.load_keeper().start_writing(self._current_request())
            self._unattended_writer = writer
            # A host may attach meanwhile, and its cells do not wait: on a busy machine the
            # low-priority writer takes long.
            self._unattended_thread = threading.Thread(
                target=self._wait_for_unattended, args=(writer,), daemon=True
            )
            self._unattended_thread.start()

    def wait_at_end(self) -> None:
        """Wait until variables are saved, as long as the kernel's end may take."""
        if self._unattended_thread is not None:
            self._unattended_thread.join(SAVE_TIMEOUT_S)

    def make_rescue(self) -> Rescue | None:
        """Return what a checkpoint does if the kernel dies; None if variables are not saved."""
        if not self._settings:
            return None
        return self.load_keeper().make_rescue(self._current_request)

    def restore(self, file: str, interrupts: Interrupts, cell: int) -> dict[str, str]:
        """Put the variables of a saved file into the namespace.

        Args:
            file: Its name, one of `index`.
            interrupts: An interrupt ends the restoring.
            cell: The number by which the host interrupts it.

        Returns:
            The variables that are not restored, each with the reason as a clause.
        """
        loader = self.load_keeper().loading(file)
        with suppress(KeyboardInterrupt), interrupts.allowed(cell):
            loader.run()
        missing = loader.missing()
        if not missing:
            self._restored_files.add(file)
        return missing

    def _current_request(self) -> Frame:
        """Return what the host would ask for now, if it could."""
        last_request = self._last_request if self._backlog is None else self._backlog.saved
        carried = last_request["carried"]
        if carried is None:
            carried = [file["name"] for file in self.load_keeper().index()["files"]]
        unrestored = [name for name in carried if name not in self._restored_files]
        return {"carried": unrestored, "lost": last_request["lost"]}

    def _wait_for_unattended(self, writer: Checkpoint) -> None:
        own_module("saving.keeper").finish(writer)
        if self._unattended_writer is writer:
            self._unattended_writer = None
