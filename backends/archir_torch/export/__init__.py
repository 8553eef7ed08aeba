"""Export of networks that run without archir: as Python source files, or as torch packages."""
