"""Export of networks that run without archir: Python source files and torch packages."""
