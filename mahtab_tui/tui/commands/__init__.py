"""Every command of the user, declared once. Keys, footer, help, palette and slash commands are made
from these."""
