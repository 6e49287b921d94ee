"""The command line: one file per command, loaded when chosen; the only place that prints."""
