"""Sources of scores for the alternatives of a space: fitted models, single replacements, search logits, functions."""
