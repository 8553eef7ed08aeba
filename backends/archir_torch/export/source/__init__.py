"""Export of networks as Python source that imports only torch."""
