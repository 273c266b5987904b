"""The message bus: panes, prompt and store all read the same tagged records."""
