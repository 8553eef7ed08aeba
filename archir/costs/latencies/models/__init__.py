"""Models of latencies that are fitted to measured networks, and say how wrong they are."""
