"""Tables of published results: accuracies, latencies and other measures of a space's architectures."""
