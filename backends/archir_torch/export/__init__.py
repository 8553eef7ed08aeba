"""Networks that work without archir: source files and packages of torch."""
