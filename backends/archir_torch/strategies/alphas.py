"""Architecture parameters: a logit for every alternative of every choice that is open, and what becomes of them.

`softmax` is the mixture of DARTS (Liu et al. 2019, eq. 2). `gumbel` draws a point of the simplex (Xie et al. 2019,
SNAS, eq. 5), `single` one alternative, with the gradient of the drawn point (Dong and Yang 2019, GDAS, eq. 5 to 7).

Of a choice that takes several, what is drawn is an outcome, a set of alternatives: as likely as the product of what its
members have. Where such a choice weighs alternatives, each has the weight of the outcomes that it is in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from archir.diagrams.cases import Choice
from archir_torch.supernet.mixture import Active, Weights

Sampling = Literal["softmax", "gumbel", "single"]
Init = Literal["zeros", "normal"]
SPREAD = 1e-3
"""Standard deviation of the logits at the start, where it is `normal`: that of DARTS."""


class Drawn(NamedTuple):
    """Weights for the mixtures of a step, and which of them are not zero, if that is known."""

    weights: Weights
    active: Active | None


class Alphas(nn.Module):
    """Logits [choices, most alternatives], a row for each choice; places that no alternative has stay out of it.

    `names` are those that mixtures know weights by (`MixedNetwork.names`).
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        names: Sequence[str],
        init: Init = "zeros",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        wanted = {name.removesuffix("*") for name in names}
        self.names = tuple(names)
        self.choices = tuple(choice for choice in choices if choice.path in wanted)
        self._rows = {choice.path: row for row, choice in enumerate(self.choices)}
        counts = torch.tensor([len(choice.alternatives) for choice in self.choices], dtype=torch.long)
        most = int(counts.max()) if len(counts) else 0
        inside = torch.arange(most)[None] < counts[:, None]
        logits = torch.zeros(len(self.choices), most)
        if init == "normal":
            logits = torch.randn(logits.shape, generator=generator) * SPREAD * inside
        self.logits = nn.Parameter(logits)
        self.register_buffer("inside", inside, persistent=False)

    def draw(
        self, sampling: Sampling = "softmax", temperature: float = 1.0, noise: torch.Generator | None = None
    ) -> Drawn:
        """The weights of a step. Noise is drawn on the CPU: the same numbers on every device and in every process."""
        if sampling == "softmax":
            return Drawn(self._by_name(self._simplex(self.logits)), None)
        if not self.choices:
            return Drawn({}, {} if sampling == "single" else None)
        scores = (self.logits + _gumbel(self.logits, noise)).masked_fill(~self._inside, -torch.inf)
        rows, best = _point(scores, temperature, sampling)
        several, taken = {}, {}
        for row, choice in enumerate(self.choices):
            if choice.take is not None:
                logits = _together(choice, self.logits[row, : len(choice.alternatives)])
                several[choice], taken[row] = _point(logits + _gumbel(logits, noise), temperature, sampling)
        weights = {}
        for name in self.names:
            row = self._rows[name.removesuffix("*")]
            choice = self.choices[row]
            if choice.take is None:
                weights[name] = rows[row, : len(choice.alternatives)]
            else:
                point = several[choice]
                weights[name] = _apart(choice, point) if name.endswith("*") else point
        if sampling == "gumbel":
            return Drawn(weights, None)
        picked = torch.stack([taken.get(row, outcome) for row, outcome in enumerate(best)]).tolist()
        return Drawn(weights, {name: self._positions(name, picked) for name in self.names})

    def _positions(self, name: str, picked: Sequence[int]) -> tuple[int, ...]:
        """The positions that have a weight by a name, where these are the outcomes of the choices."""
        row = self._rows[name.removesuffix("*")]
        return self.choices[row].subsets[picked[row]] if name.endswith("*") else (picked[row],)

    def probabilities(self, logits: Tensor | None = None) -> dict[str, list[float]]:
        """By path, the softmax over a choice's alternatives; of other logits than those at hand, if they are given."""
        with torch.no_grad():
            known = self.logits if logits is None else logits
            rows = self._simplex(known.double().cpu(), self._inside.cpu()).tolist()
        return {c.path: row[: len(c.alternatives)] for c, row in zip(self.choices, rows, strict=True)}

    def entropy(self) -> Tensor:
        """The mean entropy of the choices, in nats; 0 if there are none."""
        if not self.choices:
            return self.logits.sum()
        p = self._simplex(self.logits)
        return -(p * p.clamp_min(1e-12).log()).sum(1).mean()

    def outcomes(self) -> dict[str, Tensor]:
        """By path, the probabilities of a choice's outcomes; of several that are taken they go with the logits' sum."""
        p = self._simplex(self.logits)
        return {
            c.path: p[row, : len(c.alternatives)] if c.take is None else self._subsets(row, c, self.logits)
            for row, c in enumerate(self.choices)
        }

    @property
    def _inside(self) -> Tensor:
        found: Tensor = self.inside  # type: ignore[assignment]
        return found

    def _simplex(self, logits: Tensor, inside: Tensor | None = None) -> Tensor:
        return logits.masked_fill(~(self._inside if inside is None else inside), -torch.inf).softmax(1)

    def _by_name(self, rows: Tensor) -> dict[str, Tensor]:
        found = {}
        for name in self.names:
            row = self._rows[name.removesuffix("*")]
            choice = self.choices[row]
            if choice.take is None or name.endswith("*"):
                found[name] = rows[row, : len(choice.alternatives)]
            else:
                found[name] = self._subsets(row, choice, rows.clamp_min(1e-12).log())
        return found

    def _subsets(self, row: int, choice: Choice, logits: Tensor) -> Tensor:
        """Probabilities of the subsets that a choice may take: each in proportion to the product of its members'."""
        return _together(choice, logits[row, : len(choice.alternatives)]).softmax(0)

    def load(self, logits: Mapping[str, Sequence[float]]) -> None:
        """Take logits by path, of those choices that are here."""
        with torch.no_grad():
            for path, values in logits.items():
                if path in self._rows:
                    self.logits[self._rows[path], : len(values)] = torch.tensor(values).to(self.logits)

    def named(self, logits: Tensor | None = None) -> dict[str, list[float]]:
        """Logits by path."""
        rows = (self.logits if logits is None else logits).detach().cpu().tolist()
        return {c.path: row[: len(c.alternatives)] for c, row in zip(self.choices, rows, strict=True)}


def _members(choice: Choice) -> Tensor:
    """For each outcome of a choice [outcomes, alternatives], 1 for the alternatives that it takes, else 0."""
    members = torch.zeros(choice.outcomes, len(choice.alternatives))
    for outcome, subset in enumerate(choice.subsets):
        members[outcome, list(subset)] = 1
    return members


def _together(choice: Choice, values: Tensor) -> Tensor:
    """For each outcome, the sum of the values of the alternatives that it takes. No product of matrices: autocast would
    round it."""
    return (_members(choice).to(values, non_blocking=True) * values).sum(1)


def _apart(choice: Choice, values: Tensor) -> Tensor:
    """For each alternative, the sum of the values of the outcomes that take it."""
    return (_members(choice).to(values, non_blocking=True) * values[:, None]).sum(0)


def _gumbel(like: Tensor, noise: torch.Generator | None) -> Tensor:
    uniform = torch.rand(like.shape, generator=noise).clamp(1e-20, 1 - 1e-7)
    return (-(-uniform.log()).log()).to(like, non_blocking=True)


def _point(scores: Tensor, temperature: float, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """The point of the simplex that scores with their noise stand for, of each row, and where it is largest. `single`:
    1 there, and 0 elsewhere, with the gradient of the point."""
    soft, best = (scores / temperature).softmax(-1), scores.detach().argmax(-1)
    if sampling == "gumbel":
        return soft, best
    return torch.zeros_like(soft).scatter_(-1, best[..., None], 1) - soft.detach() + soft, best
