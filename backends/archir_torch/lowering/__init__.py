"""From a graph to an `nn.Module`: rules by operation, layers, weights, and where and in what precision they run."""
