"""What a run does or did, from its files: status, logs, cancel, why."""
