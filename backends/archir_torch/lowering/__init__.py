"""Lowering of graphs to `nn.Module`s: one rule per operation, layers, weights, devices and precisions."""
