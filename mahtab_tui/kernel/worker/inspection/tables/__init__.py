"""Tables of the known libraries, by columns."""
