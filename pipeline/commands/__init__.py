"""The `sweep` command: one module for each family of subcommands."""
