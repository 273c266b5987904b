"""Where Textual (8.2) does not do what this application needs: one file a defect, and what can go when it is mended upstream.

file                what Textual does                                               upstream
------------------  --------------------------------------------------------------  -----------------------
key_order           runs a priority binding while letters before it still wait;     -
                    loses letters while the screen that a key opens is being made
own_bindings        runs Backspace after letters that were typed behind it          issue 6605, pull 6631
key_sequences       types escape sequences that it does not know, a key at a time;  issue 3742
                    raises on numbers that are no characters; takes a paste in at
                    2 microseconds a character; believes impossible sizes
text_area           asks tree-sitter for all lines at each edit (seen_highlights);  pull 5642
                    never frees a document's tree; leaves out a maximum height in
                    vh; scrolls to the cursor before it knows the new height; puts
                    the cursor after an undo into a line that is gone
options             looks up an option that was clicked and is gone                 -
palette             raises on a second dismissal, on clicks beside a screen that    issue 4884
                    has become smaller, on pages of a list without a size
removable           mounts, resizes and ticks what is being taken away              -
key_line            styles each key of the footer three times                       -

Three stand where they must be overridden: `screens.dialog.Dialog.dismiss` (a second dismissal, issue 4884), `terminal_app.TerminalApp` (presses on a widget
that is gone, messages after the last screen, values of variables in the traceback of a crash) and `typed_ahead.TypedAheadDriver` (what was typed
before the first picture; the terminal's answers among the keys; suspending).
"""
