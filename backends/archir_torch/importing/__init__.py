"""From torch modules to graphs and weights."""
