"""What a user can do: every command, once. Keys, footer, help, palette and slash commands are made from these."""
