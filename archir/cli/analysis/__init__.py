"""The commands that look at spaces and networks."""
