"""The function that evaluates each class of expressions."""

from __future__ import annotations

from collections.abc import Mapping

from archir.language.elaboration import calls, choose, evaluate, lists
from archir.language.elaboration.context import Evaluator
from archir.language.syntax import ast

EVALUATORS: Mapping[type[ast.Tree], Evaluator] = {
    ast.Sequence: lists.evaluate_sequence,
    ast.Comprehension: lists.evaluate_comprehension,
    ast.Name: evaluate.evaluate_name,
    ast.Literal: evaluate.evaluate_literal,
    ast.Chain: evaluate.evaluate_chain,
    ast.Signed: evaluate.evaluate_signed,
    ast.Range: evaluate.evaluate_range,
    ast.Comparison: evaluate.evaluate_comparison,
    ast.Not: evaluate.evaluate_not,
    ast.Logical: evaluate.evaluate_logical,
    ast.IfElse: evaluate.evaluate_if_else,
    ast.Index: evaluate.evaluate_index,
    ast.Slice: evaluate.evaluate_slice,
    ast.Attribute: evaluate.evaluate_attribute,
    ast.Call: calls.evaluate_call,
    ast.Pipe: calls.evaluate_pipe,
    ast.ChooseValue: choose.evaluate_choose_value,
    ast.ChooseOne: choose.evaluate_choose_one,
    ast.ChooseSubset: choose.evaluate_choose_subset,
    ast.Match: choose.evaluate_match,
}
