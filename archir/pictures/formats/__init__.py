"""The formats that pictures are written in, one a file."""
