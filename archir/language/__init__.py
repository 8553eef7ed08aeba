"""The `.arch` language: parsing, elaboration to graphs, the standard library, formatting, and writing graphs as
programs."""
