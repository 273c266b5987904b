"""The threads of the user's code and of libraries, without those of the worker."""

from __future__ import annotations

import threading
import types
import weakref
from typing import Any

from ..stdlib import belongs_to_worker
from ..values.objects import address_of, own_dict


class ThreadSnapshot:
    """The threads of the user's code and of libraries that ran when this object was created.

    Threads are compared as objects. Their identifiers do not suffice: Linux gives the identifier of a
    thread that has ended to the next one that is started.
    """

    def __init__(self) -> None:
        # By address, because a class of the user's may define what its threads are equal to.
        self._references = {
            address_of(thread): weakref.ref(thread) for thread in running_threads().values()
        }

    def find_started_threads(self) -> list[Any]:
        """Return the threads that have been started since and still run."""
        return [thread for thread in running_threads().values() if not self._contains(thread)]

    def _contains(self, thread: object) -> bool:
        reference = self._references.get(address_of(thread))
        return reference is not None and reference() is thread


def running_threads() -> dict[int, Any]:
    """Return the running threads of the user's code and of libraries, by their identifier.

    Python may give the identifier of a thread that has ended to a new one.
    """
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not _belongs_to_worker(thread)
    }


def _belongs_to_worker(thread: object) -> bool:
    """Return whether the function that a thread runs is one of the worker's.

    The attributes of the thread are read from its `__dict__`, because its class may be the user's.
    """
    target = own_dict(thread).get("_target")
    function = target
    if type(target) is types.MethodType:
        function = target.__func__
    if type(function) is not types.FunctionType:
        return False
    return belongs_to_worker(function.__globals__.get("__package__"))
