"""The command line: `mahtab-tui` and its subcommands."""
