"""Pictures: drawn as blocks of two colours, by the terminal's graphics, or as charts."""
