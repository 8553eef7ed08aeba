"""Export of networks as Python source that depends only on torch."""
