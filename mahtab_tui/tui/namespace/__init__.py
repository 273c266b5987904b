"""The namespace pane: every variable, who last changed it, and a preview of one."""
