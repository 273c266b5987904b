"""``python -m mahtab_tui``; with ``python -i`` the screen opens over this interpreter's own namespace."""

import sys

if sys.flags.interactive:
    from mahtab_tui.embed import run_repl

    run_repl(ns=vars(sys.modules["__main__"]))
else:
    from mahtab_tui.cli import main

    main()
