"""The `.arch` language: parser, elaboration of programs to graphs, standard library, formatter, and decompiler."""
