"""What is published of a cube, and what several people published, joined."""
