"""What the operating system and the interpreter need care with: processes, folders, waiting,
imports."""
