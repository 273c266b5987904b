"""Saves the variables of a namespace, in a fork of the kernel.

Variables that share objects make a group, which is pickled as a whole. A further fork pickles the
groups, one after the other, because an object may crash or never end. The index of the folder names
the files with the groups, and what is not saved, with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

from ..link.process_facts import python_version
from ..undo.fork_writer import UnpicklableError, run_in_fork
from ..values.secret_names import is_hidden
from ..values.variables import HIDDEN_NAMES, describe_variable
from .cloudpickle_copy import load_cloudpickle
from .data_pieces import compute_digest
from .folder import MAX_REASON_CHARS, FolderError, SaveFolder
from .hidden_texts import HIDDEN_REASON, HiddenTexts
from .pickling import TooLargeError, pickle_variables
from .progress import ProgressCounter
from .variable_groups import VariableGroup, group_variables

RESCUE_TIMEOUT_S = 60.0
"""Seconds for writing what a kernel had when it died. Meanwhile the next kernel waits."""
_NAME_BYTES = 20
"""Random bytes in the name of a file whose digest is not known."""
SMALL_GROUP_BYTES = 16_384
"""Groups of up to this size are written to one file."""
_GROUP_TIMEOUT_S = 5.0
"""Seconds without progress for one group."""
_ALL_GROUPS_TIMEOUT_S = 600.0


class _SavedGroup(NamedTuple):
    """A group that was pickled."""

    group: VariableGroup
    size: int
    """Bytes."""
    entry: dict[str, Any]
    """The entry of the index: of its file, or of a small group, of the group."""
    data: bytes
    """The bytes of a small group."""
    is_small: bool


class Writer:
    """Saves variables in a forked process."""

    def __init__(
        self,
        namespace: dict[str, Any],
        settings: dict[str, Any],
        hidden_lines: list[str],
        open_folder: Callable[..., SaveFolder],
        request: dict[str, Any],
        *,
        is_rescue: bool = False,
    ) -> None:
        """Prepare to save.

        Args:
            namespace: The user's namespace.
            settings: As for `Keeper`.
            hidden_lines: Lines typed hidden, which are not saved.
            open_folder: `Keeper.open_folder`.
            request: `carried` (files of earlier kernels to keep) and `lost` (names that only earlier
                kernels had).
            is_rescue: Whether the next kernel waits for this.
        """
        self._is_rescue = is_rescue
        self._namespace = namespace
        self._settings = settings
        self._open_folder = open_folder
        self._request = request
        megabytes: int = settings["megabytes"]
        self._max_bytes = megabytes * 2**20
        self._too_large_reason = f"more than the {megabytes:,} MB of keep_namespace_mb"
        self._hidden = HiddenTexts(hidden_lines)
        self._pulse = ProgressCounter()
        self._cloudpickle: object = None
        self._folder: SaveFolder
        self._earlier_files: dict[str, dict[str, Any]] = {}
        """The earlier files by digest."""

    def write(self) -> dict[str, Any]:
        """Save, and return size, counts and what is not saved, or an error."""
        try:
            # A rescue does not bring back the folder of a session that is being deleted, and does
            # not wait for the disk, because the next kernel waits.
            options = {"create": not self._is_rescue, "waits_for_disk": not self._is_rescue}
            with contextlib.closing(self._open_folder(**options)) as self._folder:
                return self._write()
        except OSError as error:
            return {"error": error.strerror or str(error)}
        except FolderError as error:
            return {"error": str(error)}

    def _write(self) -> dict[str, object]:
        """Save into the open folder, and return what `write` returns."""
        previous_index: dict[str, Any] = {"files": [], "missing": []}
        with contextlib.suppress(FolderError):  # of another version, which is now replaced
            previous_index = self._folder.index() or previous_index
        self._earlier_files = {
            file["digest"]: file for file in previous_index["files"] if file["digest"]
        }
        carried_files = self._carried_files(previous_index)
        kernel = self._settings["kernel"]
        self._cloudpickle = load_cloudpickle(self._settings["cloudpickle"], kernel)

        variables, reasons = self._select_variables()
        carried_bytes = sum(file["size"] for file in carried_files)
        saved_groups = self._save_groups(variables, reasons, carried_bytes)
        files = [*self._write_files(saved_groups), *carried_files]
        missing = [self._describe(name, reason=reason) for name, reason in reasons.items()]
        lost_names = set(self._request["lost"]).difference(self._namespace)
        missing += [row for row in previous_index["missing"] if row["name"] in lost_names]

        # The index comes last: until then, the folder has what was saved before.
        if not self._folder.is_owner(kernel):
            raise FolderError("another kernel saves there now")
        self._folder.write_index({"written": time.time(), "files": files, "missing": missing})
        self._folder.remove_all_but({file["name"] for file in files})
        return {
            "size": sum(file["size"] for file in files),
            "names": sum(len(saved.group.names) for saved in saved_groups),
            "missing": len(reasons),
        }

    def _select_variables(self) -> tuple[dict[str, object], dict[str, str]]:
        """Return the variables to save by name, and by the names of others why they are not saved, as
        clauses."""
        variables: dict[str, object] = {}
        reasons: dict[str, str] = {}
        for name, value in self._namespace.items():
            if type(name) is not str or name in HIDDEN_NAMES:
                continue
            if is_hidden(name, value):
                reasons[name] = "its name looks like a secret's"
            else:
                variables[name] = value
        return variables, reasons

    def _carried_files(self, previous_index: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of earlier files that are kept, each without groups of which the
        namespace has all names."""
        carried_files = []
        for file in previous_index["files"]:
            if file["name"] not in self._request["carried"]:
                continue
            groups = [
                group
                for group in file["groups"]
                if any(row["name"] not in self._namespace for row in group["rows"])
            ]
            if groups:
                carried_files.append({**file, "groups": groups})
        return carried_files

    def _save_groups(
        self, variables: dict[str, object], reasons: dict[str, str], carried_bytes: int
    ) -> list[_SavedGroup]:
        """Pickle variables, and write the files of large groups. Raises `OSError`.

        Args:
            variables: The variables by name.
            reasons: Gets the reasons why some are not saved, as clauses.
            carried_bytes: Size of the files that are kept.
        """
        groups = group_variables(variables, self._namespace)
        timeout_s = RESCUE_TIMEOUT_S if self._is_rescue else _ALL_GROUPS_TIMEOUT_S
        replies = run_in_fork(
            groups, self._write_group, _GROUP_TIMEOUT_S, timeout_s, self._pulse.count
        )
        saved_groups: list[_SavedGroup] = []
        total_bytes = carried_bytes
        for group, reply in zip(groups, replies):
            if isinstance(reply, str):
                reasons.update(dict.fromkeys(group.names, _shorten(reply)))
                continue
            saved_group = _read_reply(group, reply)
            saved_groups.append(saved_group)
            total_bytes += saved_group.size
            # The largest are left out, so that as many variables as possible are saved.
            while saved_groups and total_bytes > self._max_bytes:
                largest = max(saved_groups, key=lambda saved: saved.size)
                saved_groups.remove(largest)
                total_bytes -= largest.size
                size_text = f"{largest.size / 2**20:,.0f} MB"
                reason = f"{size_text}, which together with the others is {self._too_large_reason}"
                reasons.update(dict.fromkeys(largest.group.names, reason))
        return saved_groups

    def _write_files(self, saved_groups: Sequence[_SavedGroup]) -> list[dict[str, Any]]:
        """Write a file of all small groups; return the entries of this file and of the others."""
        files = [saved.entry for saved in saved_groups if not saved.is_small]
        small_groups = [saved for saved in saved_groups if saved.is_small]
        if not small_groups:
            return files
        small_file = self._write_file(
            [saved.entry for saved in small_groups],
            [saved.data for saved in small_groups],
            sum(saved.size for saved in small_groups),
        )
        return [small_file, *files]

    def _describe(self, name: str, **fields: str) -> dict[str, Any]:
        """Describe a variable, without texts that were typed hidden.

        Args:
            name: The variable.
            fields: Fields to add to the description.
        """
        row = {**describe_variable(name, self._namespace[name]), **fields}
        return self._hidden.redact_row(row)

    # In the fork of this process that pickles

    def _write_group(self, group: VariableGroup) -> bytes:
        """Return a line of JSON, followed by the bytes of a small group.

        Raises what an object raises.
        """
        if group.size > self._max_bytes:
            raise UnpicklableError(self._too_large_reason)
        variables = {name: self._namespace[name] for name in group.names}
        try:
            pickled = pickle_variables(
                variables, self._namespace, self._cloudpickle, self._max_bytes, self._pulse
            )
        except TooLargeError:
            raise UnpicklableError(self._too_large_reason) from None
        if self._hidden.found_in(pickled.stream, pickled.blocks, self._pulse):
            raise UnpicklableError(HIDDEN_REASON)

        parts: list[Any] = [pickled.stream, *pickled.blocks]
        size = sum(memoryview(part).nbytes for part in parts)
        entry = {
            "rows": [self._describe(name) for name in group.names],
            "stream": len(pickled.stream),
            "check": compute_digest([pickled.stream]),
            "blocks": [block.nbytes for block in pickled.blocks],
        }
        if size <= SMALL_GROUP_BYTES:
            return _encode_reply({"group": entry, "size": size}) + b"".join(parts)
        try:
            return _encode_reply({"file": self._write_file([entry], parts, size), "size": size})
        except OSError as error:
            return _encode_reply({"problem": error.errno})

    def _write_file(
        self, groups: list[dict[str, Any]], parts: list[Any], size: int
    ) -> dict[str, Any]:
        """Write a file, unless an earlier one has the same content. Raises `OSError`.

        Args:
            groups: The entries of its groups, which get the places where they begin.
            parts: Its bytes.
            size: Their number.

        Returns:
            Its entry in the index.
        """
        digest = self._digest_if_useful(parts, size)
        start = 0
        for group in groups:
            group["start"] = start
            start += group["stream"] + sum(group["blocks"])
        if digest in self._earlier_files:
            name = self._earlier_files[digest]["name"]
        else:
            name = f"{digest or os.urandom(_NAME_BYTES).hex()}.variables"
            self._folder.write(name, self._pulse.track(parts))
        return {
            "name": name,
            "digest": digest,
            "size": size,
            "python": python_version(),
            "groups": groups,
        }

    def _digest_if_useful(self, parts: list[Any], size: int) -> str:
        """Return the digest of a file, by which a later save finds it; empty in a rescue, unless an
        earlier file may have the same content: the next kernel waits, and writing is quicker."""
        may_exist = any(file["size"] == size for file in self._earlier_files.values())
        if self._is_rescue and not may_exist:
            return ""
        return compute_digest(self._pulse.track(parts))


def _encode_reply(reply: dict[str, object]) -> bytes:
    """Return the first line of a reply."""
    return json.dumps(reply).encode() + b"\n"


def _read_reply(group: VariableGroup, reply: bytes) -> _SavedGroup:
    """Read what `Writer._write_group` has returned. Raises `OSError` for a problem of the disk."""
    first_line, _, data = reply.partition(b"\n")
    fields = json.loads(first_line)
    if "problem" in fields:
        raise OSError(fields["problem"], os.strerror(fields["problem"]))
    is_small = "group" in fields
    entry = fields["group"] if is_small else fields["file"]
    return _SavedGroup(group, fields["size"], entry, data, is_small)


def _shorten(reason: str) -> str:
    """Return a reason, cut to the characters that the index keeps of it."""
    if len(reason) <= MAX_REASON_CHARS:
        return reason
    return f"{reason[:MAX_REASON_CHARS]}…"
