"""Architecture parameters (one logit per alternative of every open choice), and sampling of mixture weights
from them.

`softmax` is the mixture of DARTS (Liu et al. 2019, eq. 2). `gumbel` samples a point of the simplex (Xie et al. 2019,
SNAS, eq. 5). `single` samples one alternative, with the gradient of the relaxed sample (Dong and Yang 2019, GDAS,
eq. 5 to 7).

The outcomes of a k-subset choice are sets of alternatives. The probability of a set is proportional to the product of
its members' probabilities. If a mixture weights the alternatives of such a choice, the weight of an alternative is
the
sum over the outcomes that contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from archir.diagrams.diagram import Choice
from archir_torch.supernet.mixture import Active, Weights

Sampling = Literal["softmax", "gumbel", "single"]
Init = Literal["zeros", "normal"]
INIT_STD = 1e-3
"""Standard deviation of the initial logits for `init = "normal"`, as in DARTS."""


class SampledWeights(NamedTuple):
    """Mixture weights of a step, and the indices of the non-zero ones by name.

    `active` is None if all weights may be non-zero.
    """

    weights: Weights
    active: Active | None


class Alphas(nn.Module):
    """Architecture parameters as logits [choices, maximum number of alternatives], one row per choice, with masked
    padding.

    `names` are the names under which mixtures look up weights (`MixedNetwork.names`).
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        names: Sequence[str],
        init: Init = "zeros",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        open_paths = {name.removesuffix("*") for name in names}
        self.names = tuple(names)
        self.choices = tuple(choice for choice in choices if choice.path in open_paths)
        self._rows = {choice.path: row for row, choice in enumerate(self.choices)}
        counts = torch.tensor([len(choice.alternatives) for choice in self.choices], dtype=torch.long)
        width = int(counts.max()) if len(counts) else 0
        inside = torch.arange(width)[None] < counts[:, None]
        logits = torch.zeros(len(self.choices), width)
        if init == "normal":
            logits = torch.randn(logits.shape, generator=generator) * INIT_STD * inside
        self.logits = nn.Parameter(logits)
        self.register_buffer("inside", inside, persistent=False)

    def sample(
        self, sampling: Sampling = "softmax", temperature: float = 1.0, noise: torch.Generator | None = None
    ) -> SampledWeights:
        """Sample the mixture weights of a step.

        Noise is generated on the CPU, so that it is the same on every device and in every process.
        """
        if sampling == "softmax":
            return SampledWeights(self._by_name(self._simplex(self.logits)), None)
        if not self.choices:
            return SampledWeights({}, {} if sampling == "single" else None)
        scores = (self.logits + _gumbel_noise(self.logits, noise)).masked_fill(~self._valid, -torch.inf)
        rows, outcomes = _relaxed_sample(scores, temperature, sampling)
        subset_points, subset_outcomes = {}, {}
        for row, choice in enumerate(self.choices):
            if choice.k is not None:
                logits = _sum_by_outcome(choice, self.logits[row, : len(choice.alternatives)])
                subset_points[choice], subset_outcomes[row] = _relaxed_sample(
                    logits + _gumbel_noise(logits, noise), temperature, sampling
                )
        weights = {}
        for name in self.names:
            row = self._rows[name.removesuffix("*")]
            choice = self.choices[row]
            if choice.k is None:
                weights[name] = rows[row, : len(choice.alternatives)]
            else:
                point = subset_points[choice]
                weights[name] = _sum_by_alternative(choice, point) if name.endswith("*") else point
        if sampling == "gumbel":
            return SampledWeights(weights, None)
        outcome_codes = torch.stack(
            [subset_outcomes.get(row, outcome) for row, outcome in enumerate(outcomes)]
        ).tolist()
        return SampledWeights(weights, {name: self._active_positions(name, outcome_codes) for name in self.names})

    def _active_positions(self, name: str, outcome_codes: Sequence[int]) -> tuple[int, ...]:
        """Return the indices with non-zero weight for a mixture-weight name, given the sampled outcome of each
        choice."""
        row = self._rows[name.removesuffix("*")]
        return self.choices[row].subsets[outcome_codes[row]] if name.endswith("*") else (outcome_codes[row],)

    def probabilities(self, logits: Tensor | None = None) -> dict[str, list[float]]:
        """Return the softmax over the alternatives of each choice, by path. `logits`, if given, replace the current
        logits."""
        with torch.no_grad():
            values = self.logits if logits is None else logits
            rows = self._simplex(values.double().cpu(), self._valid.cpu()).tolist()
        return {c.path: row[: len(c.alternatives)] for c, row in zip(self.choices, rows, strict=True)}

    def entropy(self) -> Tensor:
        """Return the mean entropy over choices, in nats; 0 if there are no choices."""
        if not self.choices:
            return self.logits.sum()
        p = self._simplex(self.logits)
        return -(p * p.clamp_min(1e-12).log()).sum(1).mean()

    def outcome_probabilities(self) -> dict[str, Tensor]:
        """Return the probabilities of the outcomes of each choice, by path.

        For k-subset choices, they are the softmax over the sums of the members' logits.
        """
        p = self._simplex(self.logits)
        return {
            c.path: p[row, : len(c.alternatives)] if c.k is None else self._subset_probabilities(row, c, self.logits)
            for row, c in enumerate(self.choices)
        }

    @property
    def _valid(self) -> Tensor:
        """Mask that is True where an alternative exists and False at padding, [choices, maximum number of
        alternatives]."""
        mask: Tensor = self.inside  # type: ignore[assignment]
        return mask

    def _simplex(self, logits: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return the softmax of each row over valid positions."""
        return logits.masked_fill(~(self._valid if inside is None else inside), -torch.inf).softmax(1)

    def _by_name(self, rows: Tensor) -> dict[str, Tensor]:
        """Convert probabilities of alternatives to mixture weights by name."""
        weights = {}
        for name in self.names:
            row = self._rows[name.removesuffix("*")]
            choice = self.choices[row]
            if choice.k is None or name.endswith("*"):
                weights[name] = rows[row, : len(choice.alternatives)]
            else:
                weights[name] = self._subset_probabilities(row, choice, rows.clamp_min(1e-12).log())
        return weights

    def _subset_probabilities(self, row: int, choice: Choice, logits: Tensor) -> Tensor:
        """Return the probabilities of the subsets of a k-subset choice.

        The probability of a subset is proportional to the product of its members' probabilities.
        """
        return _sum_by_outcome(choice, logits[row, : len(choice.alternatives)]).softmax(0)

    def load(self, logits: Mapping[str, Sequence[float]]) -> None:
        """Set logits by path; paths that are not open choices of this space are ignored."""
        with torch.no_grad():
            for path, values in logits.items():
                if path in self._rows:
                    self.logits[self._rows[path], : len(values)] = torch.tensor(values).to(self.logits)

    def by_path(self, logits: Tensor | None = None) -> dict[str, list[float]]:
        """Return the logits of each choice, by path."""
        rows = (self.logits if logits is None else logits).detach().cpu().tolist()
        return {c.path: row[: len(c.alternatives)] for c, row in zip(self.choices, rows, strict=True)}


def _membership(choice: Choice) -> Tensor:
    """Return the membership matrix of a choice [outcomes, alternatives]: 1 where the outcome contains the
    alternative."""
    members = torch.zeros(choice.outcome_count, len(choice.alternatives))
    for outcome, subset in enumerate(choice.subsets):
        members[outcome, list(subset)] = 1
    return members


def _sum_by_outcome(choice: Choice, values: Tensor) -> Tensor:
    """Sum the values of the alternatives in each outcome. No matrix product is used, because autocast would round
    it."""
    return (_membership(choice).to(values, non_blocking=True) * values).sum(1)


def _sum_by_alternative(choice: Choice, values: Tensor) -> Tensor:
    """Sum, for each alternative, the values of the outcomes that contain it."""
    return (_membership(choice).to(values, non_blocking=True) * values[:, None]).sum(0)


def _gumbel_noise(like: Tensor, noise: torch.Generator | None) -> Tensor:
    """Return standard Gumbel noise with the shape of `like`."""
    uniform = torch.rand(like.shape, generator=noise).clamp(1e-20, 1 - 1e-7)
    return (-(-uniform.log()).log()).to(like, non_blocking=True)


def _relaxed_sample(scores: Tensor, temperature: float, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the softmax with temperature of each row of noisy scores, and the argmax.

    With `single`, the weights are one-hot in the forward pass and have the gradient of the softmax (straight-through).
    """
    soft, best = (scores / temperature).softmax(-1), scores.detach().argmax(-1)
    if sampling == "gumbel":
        return soft, best
    return torch.zeros_like(soft).scatter_(-1, best[..., None], 1) - soft.detach() + soft, best
