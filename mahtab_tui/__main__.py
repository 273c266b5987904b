"""``mahtab-tui`` and ``python -m mahtab_tui``; with ``python -i`` the screen opens over this
interpreter's own namespace."""

import gc
import sys


def main() -> None:
    """Run the command line. While it is imported, the garbage collector is off, and an interrupt ends
    the process silently."""
    _open_missing_streams()
    gc.disable()  # imports create no garbage; `mahtab_tui.cli.main.screen` enables it again
    try:
        import os
        import signal

        _end_without_prompt()
        _restore_default_signals()
        previous_handler = signal.getsignal(signal.SIGINT)
        if previous_handler is signal.default_int_handler:
            # A module that is being imported could catch or replace an exception.
            signal.signal(signal.SIGINT, _end)
        from mahtab_tui.cli.main import main as command_line
        from mahtab_tui.system import safe_path

        signal.signal(signal.SIGINT, previous_handler)
        os.environ["PATH"] = safe_path()
        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


def _open_missing_streams() -> None:
    """Open the null device for closed standard streams, whose numbers another file would get."""
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


def _end_without_prompt() -> None:
    """Start again without PYTHONINSPECT, which lets Python ask for code at the end."""
    import os

    if os.environ.get("PYTHONINSPECT") and not sys.flags.interactive:
        del os.environ["PYTHONINSPECT"]
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _restore_default_signals() -> None:
    """Undo what the program that started us has set: if SIGCHLD is ignored, nobody learns how a child
    ended; a blocked signal never arrives."""
    import signal

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _end(number: int, frame: object) -> None:
    import os

    os._exit(128 + number)


if __name__ == "__main__":
    # Remove the working directory, whose `json.py` is not ours.
    working_directory = [] if sys.flags.safe_path else [sys.path.pop(0)]
    if sys.flags.interactive:
        from mahtab_tui.cli.python_session import run_repl

        sys.path += working_directory  # last, so that it hides none of our modules
        # The namespace is the user's.
        del working_directory, gc, main, _end, _end_without_prompt, _open_missing_streams
        del _restore_default_signals
        run_repl(ns=vars(sys.modules["__main__"]))
    else:
        main()
