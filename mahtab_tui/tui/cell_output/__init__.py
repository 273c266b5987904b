"""What a cell prints and shows: as data that grows, and as rows."""
