"""The message bus: panes, prompt and store all read the same tagged records."""


class StoreError(Exception):
    """The store failed; the message is a sentence for the user."""
