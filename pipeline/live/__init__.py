"""A page that shows a run while it lasts, and a cube at any time."""
