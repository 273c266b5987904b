"""Pictures in the terminal's own pixels: what it says that it has, and what it is then sent."""
