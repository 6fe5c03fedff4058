"""What happens before a run starts: check, plan, predict, hand over."""
