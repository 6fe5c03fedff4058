"""From a command to a head: check, plan, predict, hand over."""
