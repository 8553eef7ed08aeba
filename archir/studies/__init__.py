"""Studies: comparisons of search strategies on tabular benchmarks, over many seeds."""
