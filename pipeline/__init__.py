"""How a sweep runs: tasks, batches, compute cluster, driver, scores, report, fits of one table, commands."""
