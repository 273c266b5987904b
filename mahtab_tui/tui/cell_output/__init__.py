"""The output of a cell: as data that grows, and as rows."""
