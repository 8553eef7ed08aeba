"""Studies: comparisons over many seeds, of search strategies on tabular benchmarks or of variants of a recipe."""
