"""The best architectures of a space within bounds, proved; or that there are none, and why."""
