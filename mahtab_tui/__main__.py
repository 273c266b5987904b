"""``mahtab-tui`` and ``python -m mahtab_tui``; with ``python -i`` the screen opens over this
interpreter's own namespace."""

import gc
import sys


def main() -> None:
    """The entry point. Until the command line is loaded nothing is collected, and an interrupt ends
    the process without a word."""
    _open_missing_streams()
    gc.disable()  # Loading makes nothing that can be collected; `mahtab_tui.cli.main.screen` switches it on, or has the screen do that.
    try:
        import os
        import signal

        before = signal.getsignal(signal.SIGINT)
        if before is signal.default_int_handler:
            # An exception would not do: a module that is being loaded may catch it, or say it in
            # other words.
            signal.signal(signal.SIGINT, _end)
        from mahtab_tui.cli.main import main as command_line
        from mahtab_tui.system import safe_path

        signal.signal(signal.SIGINT, before)
        os.environ["PATH"] = safe_path()
        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


def _open_missing_streams() -> None:
    """Open the null device for stdin, stdout and stderr where they are closed: another file would
    get their numbers."""
    import os

    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
        if getattr(sys, name) is None:
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _end(number: int, frame: object) -> None:
    import os

    os._exit(128 + number)


if __name__ == "__main__":
    own = (
        [] if sys.flags.safe_path else [sys.path.pop(0)]
    )  # the working directory, whose `json.py` is not ours
    if sys.flags.interactive:
        from mahtab_tui.cli.session_setup import run_repl

        sys.path += own  # the user's modules can be imported, and hide none of ours
        del own, gc, main, _end, _open_missing_streams  # the namespace is the user's
        run_repl(ns=vars(sys.modules["__main__"]))
    else:
        main()
