"""Running cells: their code, their environment, what they print, and their errors."""
