"""All commands, each declared once. Keys, footer, help, palette and slash commands are made from
these declarations."""
