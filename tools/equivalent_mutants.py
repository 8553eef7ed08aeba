"""Mutants that no test can notice, with the reason: by file, function and change, as `mutants.py` prints them."""

from __future__ import annotations

CACHE = "a cache: the same value is computed again"
SPEED = "changes only time or memory"
WORK = "changes only the amount of counted work"
WIDER = "keeps more states than needed; totals are compared with the bounds afterwards"

_REASONS: dict[str, dict[str, dict[str, str]]] = {
    "archir/costs/account.py": {
        "Account._node_costs": {"if rule.tokens not in self._resized: -> if True:": CACHE},
    },
    "archir/costs/counting/distribution.py": {"Distribution._within_reach": {"2 -> 3": WIDER}},
    "archir/costs/counting/stages.py": {
        "Stages.__init__": {
            "0 -> 1": SPEED,
            "STATE_WEIGHT * len(states) -> STATE_WEIGHT // len(states)": SPEED,
        },
    },
    "archir/costs/counting/joint_bounds.py": {
        "ResidualGrid.is_small": {"prod(self.sizes) <= MAX_CELLS -> prod(self.sizes) < MAX_CELLS": SPEED},
    },
    "archir/costs/counting/totals.py": {
        "merge_histograms": {"64 * rows -> 64": SPEED, "64 * rows -> 64 // rows": SPEED, "64 -> 63": SPEED},
    },
    "archir/costs/extremes/forward_search.py": {
        "_work": {
            "rows * (1 + choices / 16) -> rows // (1 + choices / 16)": SPEED,
            "1 + choices / 16 -> 1 - choices / 16": SPEED,
            "16 -> 17": SPEED,
        },
    },
    "archir/costs/latencies/counts.py": {
        "counts_of_codes.<locals>.expansion_id": {"if indices not in expansion_index: -> if True:": CACHE}
    },
    "archir/costs/latencies/fitting.py": {"_FeatureBlock.__init__": {"1 -> 2": "where no feature differs, all are 0"}},
    "archir/costs/latencies/gaussian_process.py": {
        "_sample_hyperparameters": {"1.0 -> 100.0": "shares are divided by their sum"}
    },
    "archir/costs/optimal/multipliers.py": {
        "find_multipliers": {
            "candidate.bound * best.weights[0] > best.bound * candidate.weights[0] -> candidate.bound * "
            "best.weights[0] >= best.bound * candidate.weights[0]": "two proofs of the same bound are equally good",
            "best.min_objective > max_objective -> best.min_objective >= max_objective": SPEED,
        },
    },
    "archir/costs/optimal/optimum.py": {
        "_Search.result": {"1 -> 0": "a search that is not finished has a bound that is less by one"}
    },
    "archir/costs/optimal/paths.py": {
        "_PathSearch._extend": {
            "len(undominated.states) < KEPT_FRACTION * len(extended.states) -> "
            "len(undominated.states) <= KEPT_FRACTION * len(extended.states)": SPEED
        },
        "_PathSearch._extend_block": {"0 -> -1": WIDER},
    },
    "archir/costs/symbolic.py": {
        "SymbolicCosts._node_terms": {"0 -> -1": "the outcomes of no choice are one combination"}
    },
    "archir/costs/tables.py": {
        "_merge_factors": {
            "len(union) == len(merged_choices) or prod((choice.outcome_count for choice in union)) <= "
            "(MAX_MERGED_CELLS if overlaps else MAX_MERGED_CELLS // 16) -> "
            "len(union) == len(merged_choices) and prod((choice.outcome_count for choice in union)) <= "
            "(MAX_MERGED_CELLS if overlaps else MAX_MERGED_CELLS // 16)": SPEED
        },
    },
    "archir/ir/typing.py": {
        "lift_rule": {
            "if not attributes and (not varied): -> if False:": SPEED,
            "MAX_LISTED if max_combinations is None else max_combinations -> MAX_LISTED": SPEED,
        },
        "copy_types": {"if graph in _recorded and _recorded[graph].covered == len(graph): -> if False:": CACHE},
        "infer_reachable": {"if cache_key not in cache: -> if True:": CACHE},
    },
    "archir/equivalence/algebra.py": {"Terms.put": {"Add | Sub -> Add": SPEED}},
    "archir/equivalence/isomorphism.py": {
        "_Labelling._part": {"0 -> -1": "one step more before the labelling gives up"},
        "_Labelling._refined": {"reversed(part) -> part": SPEED},
        "_Labelling._signature": {"1 -> 0": WORK, "1 + len(edges) -> 1": WORK},
    },
    "archir/equivalence/movement.py": {
        "_sliced": {"axis < inner_axis -> axis <= inner_axis": "equal axes have returned before"},
    },
    "archir/passes/expand.py": {
        "expand": {"if not any((isinstance(graph[number].op, Composite) for number in graph)): -> if False:": SPEED},
    },
    "archir/passes/fold.py": {
        "FoldSite._transposed": {
            "if source == self.operands[0]: -> if False:": "the same transposition, with its axes written out"
        },
    },
    "archir/passes/prune.py": {
        "prune": {
            "reachability_conditions(graph).keys() if needed is None else needed -> "
            "reachability_conditions(graph).keys()": SPEED
        },
    },
    "archir/passes/channel_placement.py": {"ChannelPlacement.positions": {"0 -> -1": CACHE}},
    "archir/passes/freeze.py": {"freeze.<locals>.step": {"if varied: -> if True:": "nothing is replaced"}},
    "backends/archir_onnx/verification/verify.py": {"verify": {"False -> True": SPEED}},
}
EQUIVALENT = {
    (file, function, change): reason
    for file, functions in _REASONS.items()
    for function, changes in functions.items()
    for change, reason in changes.items()
}
"""The reason why a mutant is equivalent to the code, by file, function and change."""
