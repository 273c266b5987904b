"""The part of a remote kernel that runs next to it on the other machine. Standard library only; the
host sends it over the connection."""
