"""What choosing pairs is worth: curves of every design, and the uniform pairs that reach them."""
