"""What code may not do: the locked fork, protected files, private variables."""
