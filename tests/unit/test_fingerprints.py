"""Fingerprints of values."""

from __future__ import annotations

from mahtab_tui.worker.guard.fingerprints import take_fingerprints


def test_a_large_text_that_repeats_takes_no_memory() -> None:
    text = "x" * 20_000_000
    assert take_fingerprints({"texts": [text] * 60}, ["texts"]) == {
        "texts": ("", "it has more than 1 GB")
    }


def test_equal_values_have_equal_fingerprints() -> None:
    shared = "text" * 40_000
    namespace = {
        "shared": [shared, shared, {1, "b", (2.5, None)}],
        "apart": [shared, "text" * 40_000, {(2.5, None), "b", 1}],
        "other": [shared, shared, {1, "b", (2.5, 0)}],
    }
    fingerprints = take_fingerprints(namespace, namespace)
    assert fingerprints["shared"] == fingerprints["apart"] != fingerprints["other"]
