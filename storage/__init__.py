"""The cube, its run folder, and safe writing of both."""
