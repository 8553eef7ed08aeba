"""Studies: strategies compared on spaces with tables of results, over many seeds."""
