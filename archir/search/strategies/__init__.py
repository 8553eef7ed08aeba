"""Built-in multi-trial strategies, one module each."""
