"""Sources of additive scores for a space: fitted models, replacements of one outcome, search logits, functions."""
