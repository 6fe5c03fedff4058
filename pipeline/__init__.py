"""How a sweep runs: tasks, batches, compute cluster, driver, scores, report, commands."""
