"""Fingerprints of values."""

from __future__ import annotations

import threading
import tracemalloc

from mahtab_tui.worker.guard.fingerprints import take_fingerprints


def test_a_large_text_that_repeats_takes_no_memory() -> None:
    text = "x" * 20_000_000
    tracemalloc.start()
    try:
        fingerprints = take_fingerprints({"texts": [text] * 60}, ["texts"])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fingerprints == {"texts": ("", "it has more than 1 GB")}
    assert peak_bytes < 3 * len(text)


def test_numbers_in_sets_are_told_apart_by_their_types() -> None:
    namespace = {"ints": {1}, "floats": {1.0}, "bools": {True}, "texts": {"1"}, "bytes": {b"1"}}
    digests = {digest for digest, _ in take_fingerprints(namespace, namespace).values()}
    assert len(digests) == 5


def test_equal_values_have_equal_fingerprints() -> None:
    shared = "text" * 40_000
    namespace = {
        "shared": [shared, shared, {0, 8}, {"b", (2.5, None)}],
        "apart": [shared, "text" * 40_000, {8, 0}, {(2.5, None), "b"}],
        "other": [shared, shared, {0, 8}, {"b", (2.5, 0)}],
    }
    fingerprints = take_fingerprints(namespace, namespace)
    assert fingerprints["shared"] == fingerprints["apart"] != fingerprints["other"]


def test_values_that_cannot_be_compared_are_named_by_their_type() -> None:
    namespace = {"one": threading.Event(), "many": [threading.Event()]}
    assert take_fingerprints(namespace, namespace) == {
        "one": ("", "values of the type Event cannot be compared"),
        "many": ("", "it contains Event, which cannot be compared"),
    }
