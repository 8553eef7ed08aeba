"""Reports of runs: HTML pages, charts and TensorBoard files."""
