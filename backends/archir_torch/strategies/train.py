"""Training one architecture: retraining what was derived, or a net without choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.passes.expose import expose
from archir.recipes.open_choices import closed
from archir.recipes.recipe import Phase
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir.utils.settings import Count, Path, Settings
from archir_torch.lowering.generators import generator
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.replay import Replayed
from archir_torch.reuse.start import in_order
from archir_torch.search.inheritance import inherited, take_over
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.search.task import Task, tested
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Feed
from archir_torch.training.kernels import Steps, with_kernels
from archir_torch.training.learner import Learner, replayable
from archir_torch.training.norms import freeze, synchronise


class TrainOptions(Settings):
    """What `train` can be told."""

    evaluate_every: Count = 1
    """Epochs from one look at the held-out images to the next."""


@strategy("train", TrainOptions, divides=True, whole=True, orders=True, refits=True, gives=("architecture", "weights"))
class Train:
    """All training images are trained on; what is held out is measured on."""

    steady = True

    def __init__(self, job: Job, options: TrainOptions) -> None:
        self.job, self.options = job, options
        phase, training = job.phase, job.phase.training
        self.epochs = training.epochs
        if job.architecture is None and job.space.choices and not phase.fixed:
            raise ArchError(_many(phase, job.space))
        self.architecture = closed(job.space, job.phase.fixed, job.architecture)
        self.graph = job.space.specialize(self.architecture)
        self.task = Task(job, self.graph)
        self.network = lower(self.task.graph, generator=generator(job.seed, "weights")).to(job.device)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            weights = inherited(job, self.architecture)
            take_over(self.network, in_order(job, self.graph, weights), job.named)
        if training.norms == "frozen":
            freeze(self.module)
        elif training.sync_norms:
            synchronise(self.module)
        if training.sharding == "full":
            self._divide()
        rank, size = distributed.world()
        settings = phase.data
        assert settings is not None
        self.feed = Feed(
            job.data.train, training.batch, seed=mixed(job.seed, "train"), augment=phase.augment or settings.augment,
            device=job.device, rank=rank, world=size, classes=len(job.data.classes),
        )  # fmt: skip
        self.steps = self.feed.steps
        self.learner = Learner(
            self.module, phase.weights, epochs=self.epochs, steps=self.steps, precision=training.precision,
            accumulate=training.accumulate, ema=training.ema,
        )  # fmt: skip
        with_kernels(self.network, training, job.device, self._steps, job.decided)
        self.paths = DropPaths(self.network)
        self.call = Replayed(self.network, possible=replayable(training, self.paths))

    def _steps(self) -> Steps[Network]:
        inputs = self.task.part_of(self.feed)
        return Steps(self.epochs * self.steps, [lambda network: network(*inputs)])

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: TrainOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """No architecture."""
        if phase.start.architecture is None and space.choices and not phase.fixed:
            yield ("strategy",), _many(phase, space)

    def _divide(self) -> None:
        """Every process keeps its part of the network."""
        if any(parameter.requires_grad for parameter in self.task.objective.parameters()):
            text = f"phase `{self.job.phase.name}`: an objective with weights of its own cannot be divided"
            raise fail("A1109", text, None, 'training.sharding = "none"')
        from archir_torch.training.shards import shard  # what it imports takes seconds

        shard(self.network)

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """An update."""
        if self.job.phase.training.drop_path == "linear":
            self.paths.scale(index // self.steps / self.epochs)
        self.task.begin(index)
        update = self.learner.update(lambda part: self.task.loss(self.call, part, index), index, self.feed.batch(index))
        return {"loss": update.loss}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """A look at the held-out images."""
        if (epoch + 1) % self.options.evaluate_every and epoch + 1 < self.epochs:
            return {}
        with self.learner.evaluating():
            return tested(self.task.measured(self.network, self.job.data.held_out, epoch))

    def state(self) -> State:
        """That of the learner."""
        return self.learner.state()

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.learner.restore(state)

    def finished(self) -> str | None:
        """Not before the last epoch."""
        return None

    def outcome(self) -> Outcome:
        """The network."""
        with self.learner.evaluating():
            whole = State(self.network.state_dict()).whole()
            weights = {name: tensor.detach().clone() for name, tensor in whole.tensors.items()}
        name, number = next(iter(self.graph.outputs.items()))
        deployed = expose(self.graph, {name: number})
        return Outcome(architecture=self.architecture, network=deployed, weights=weights)


def _many(phase: Phase, space: Space) -> Diagnostic:
    hint = 'start.architecture = "..." names a phase that derives one; fixed = { "*" = "largest" } says one'
    return Diagnostic("A2205", f"phase `{phase.name}` trains one architecture, but `{space.name}` has many", None, hint)
