"""What people ask for in a terminal: one module per command or small group of commands."""
