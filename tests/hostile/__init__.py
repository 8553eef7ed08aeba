"""Artefacts made to do harm, which tests build, and the diagnostics that refuse them."""
