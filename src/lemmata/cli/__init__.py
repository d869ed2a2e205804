"""The command line: parse, call, print. Everything heavy is imported inside the command that needs it."""
