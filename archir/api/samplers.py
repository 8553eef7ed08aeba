"""Adapters to hyperparameter optimisation libraries.

`archir.optuna.suggest(trial, space)` and `archir.nevergrad.parametrization(space)`.
"""

from __future__ import annotations

from archir.search.adaptors import nevergrad, optuna

__all__ = ["nevergrad", "optuna"]
