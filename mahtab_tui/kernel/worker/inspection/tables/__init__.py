"""Tables of known libraries, read by columns."""
