"""Artefacts that somebody made to do harm, built where they are needed, and what is said of them."""
