"""Many small groups, merged by features and answers into classes of any size and shape."""
