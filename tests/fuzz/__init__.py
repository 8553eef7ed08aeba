"""Random and damaged input of every kind: `python -m tests.fuzz KIND COUNT [SEED]`, and tests/fuzz/test_fuzz.py."""
