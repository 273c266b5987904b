"""Workarounds for Textual 8.2, one file a defect. Each can go once Textual is fixed.

file                what Textual does                                               upstream
------------------  --------------------------------------------------------------
-----------------------
key_order           runs a priority binding while letters before it still wait;     -
                    loses letters while the screen that a key opens is composed
own_bindings        runs Backspace after letters that were typed later              issue 6605, pull
6631 key_sequences       types escape sequences that it does not know, key by key;       issue 3742
                    raises on numbers that are no characters; needs 2 microseconds
                    for each character of a paste; believes impossible sizes
visible_highlights  asks tree-sitter for all lines at each edit                     pull 5642
options             looks up an option that was clicked and has been removed        -
palette             raises on a second dismissal, on clicks outside a screen that   issue 4884
                    has become smaller, on pages of a list without a size
removable           mounts, resizes and ticks widgets that are being removed        -
layout_events       does not tell a widget that it was laid out if a region was     issue 5024
                    looked up between mounting it and the layout

Four workarounds are methods of the classes that need them: `CodeArea` (frees a document's tree,
respects a maximum height in vh, scrolls to the cursor, keeps the cursor on a line after an undo),
`Dialog.dismiss` (a second dismissal, issue 4884), `TerminalApp` (presses on a removed widget,
messages after the last screen, values of variables in the traceback of a crash) and
`TerminalDriver` (keys typed before the first picture, the terminal's answers among the keys,
suspending).
"""
