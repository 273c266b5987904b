"""A kernel on another machine: what runs there beside it. Standard library only; the host sends it
over the wire."""
