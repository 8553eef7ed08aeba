"""Reports of runs: pages, curves, TensorBoard."""
