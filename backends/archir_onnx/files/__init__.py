"""Reading and writing of model files and their external data files."""
