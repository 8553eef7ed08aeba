"""Tables of published results: accuracies, latencies and other measures of the architectures of a space."""
