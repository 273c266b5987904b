"""What the operating system and the interpreter need of care: processes, folders, waiting."""
