"""Lowering of graphs to `nn.Module`s: one lowering rule per operation, layers, weights, devices and precisions."""
