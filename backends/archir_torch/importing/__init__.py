"""Import of torch modules, and of networks that other backends read from files, as graphs and weights."""
