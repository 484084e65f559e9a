"""The command line: one module a command, nothing heavy imported before the arguments are read."""
