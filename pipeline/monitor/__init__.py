"""The state of a run, from its files: status, logs, cancel, why."""
