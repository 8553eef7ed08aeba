"""The intermediate representation: operations, graphs, tensor types, and the text and JSON formats."""
