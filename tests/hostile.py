"""132 texts that would control a terminal if they reached it unchanged."""

from __future__ import annotations

COPIED = "QUJDREVG"
"""Text that the sequences would put into the clipboard."""

_INTRODUCED = {
    "csi": ("\x1b[", "\x9b"),
    "osc": ("\x1b]", "\x9d"),
    "dcs": ("\x1bP", "\x90"),
    "apc": ("\x1b_", "\x9f"),
    "pm": ("\x1b^", "\x9e"),
    "sos": ("\x1bX", "\x98"),
}
_ENDS = ("\x07", "\x1b\\", "\x9c", "")
_COMMANDS = ("2J 1;1H ?1049l ?1000h 6n c 5n 3J 31m 8m 1000b ?2026h !p >1u 21t 1;999r").split()
_OSC = (f"52;c;{COPIED}", "0;title", "8;;http://x/", "1337;File=:", "9;4;1;1", "104")

_STRINGS = (
    ("q#0;2;0;0;0", "\x1b\\"),
    ("Ga=T,f=24;AAAA", "\x1b\\"),
    ("$q", "\x9c"),
    (f"tmux;\x1b\x1b]52;c;{COPIED}\x07", "\x1b\\"),
    ("x", ""),
)


def _texts() -> list[str]:
    sequences = [f"{start}{command}" for start in _INTRODUCED["csi"] for command in _COMMANDS]
    sequences += [
        f"{start}{command}{end}"
        for start in _INTRODUCED["osc"]
        for command in _OSC
        for end in _ENDS
    ]
    sequences += [
        f"{start}{body}{end}"
        for kind in ("dcs", "apc", "pm", "sos")
        for start in _INTRODUCED[kind]
        for body, end in _STRINGS
    ]
    sequences += "\x1bc \x1b7\x1b8 \x1b#8 \x1b(0 \x0e \r \x00 \x7f \x1b \u202e \u2066".split(" ")
    sequences.append("\x08" * 9)
    return [f"a{sequence}z" for sequence in sequences]


HOSTILE = _texts()
