"""Import of torch modules, and of networks that other backends read from files, as archir graphs with weights."""
