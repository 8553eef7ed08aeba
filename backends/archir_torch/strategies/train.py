"""Training of one architecture: the result of an earlier phase, or a net without choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.passes.expose import expose
from archir.recipes.open_choices import fixed_architecture
from archir.recipes.recipe import Phase
from archir.spaces.space import Space
from archir.utils.settings import Count, Path, Settings
from archir_torch.lowering.generators import seeded_generator
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.replay import GraphedNetwork
from archir_torch.reuse.start import order_start_weights
from archir_torch.search.inheritance import copy_matching, inherited_weights
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.search.task import Task, as_held_out
from archir_torch.training.checkpoint_state import State
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.kernels import StepWorkload, with_kernels
from archir_torch.training.learner import Learner, can_replay
from archir_torch.training.norms import freeze, synchronise
from archir_torch.training.tensors import full_tensor


class TrainOptions(Settings):
    """Options of `train`."""

    evaluate_every: Count = 1
    """Number of epochs between evaluations on the held-out data."""


@strategy(
    "train",
    TrainOptions,
    divides=True,
    uses_all_samples=True,
    orders=True,
    refits=True,
    gives=("architecture", "weights"),
)
class Train:
    """Strategy that trains one network on all training data and evaluates it on the held-out data."""

    steady = True

    def __init__(self, job: Job, options: TrainOptions) -> None:
        self.job, self.options = job, options
        phase, training = job.phase, job.phase.training
        self.epochs = training.epochs
        if job.architecture is None and job.space.choices and not phase.fixed:
            raise ArchError(_needs_architecture(phase, job.space))
        self.architecture = fixed_architecture(job.space, job.phase.fixed, job.architecture)
        self.graph = job.space.specialize(self.architecture)
        self.task = Task(job, self.graph)
        self.network = lower(self.task.graph, generator=seeded_generator(job.seed, "weights")).to(job.device)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            weights = inherited_weights(job, self.architecture)
            copy_matching(self.network, order_start_weights(job, self.graph, weights), job.renamed)
        if training.norms == "frozen":
            freeze(self.module)
        elif training.sync_norms:
            synchronise(self.module)
        if training.sharding == "full":
            self._shard()
        self.feed = self.task.feed(job.data.train, "train")
        self.steps = self.feed.steps
        self.learner = Learner(
            self.module, phase.weights, epochs=self.epochs, steps=self.steps, precision=training.precision,
            accumulate=training.accumulate, ema=training.ema,
        )  # fmt: skip
        with_kernels(self.network, training, job.device, self._kernel_workload, job.decide_once)
        self.paths = DropPaths(self.network)
        self.call = GraphedNetwork(self.network, possible=can_replay(training, self.paths))

    def _kernel_workload(self) -> StepWorkload[Network]:
        """Return the workload for timing kernels: training updates of the network."""
        inputs = self.task.sample_inputs(self.feed)
        return StepWorkload(self.epochs * self.steps, [lambda network: network(*inputs)])

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: TrainOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield an error if the space has several architectures and the recipe names none for the phase."""
        if phase.start.architecture is None and space.choices and not phase.fixed:
            yield ("strategy",), _needs_architecture(phase, space)

    def _shard(self) -> None:
        """Shard the network over all processes. Raises ArchError (A1109) if the objective has weights of its own."""
        if any(parameter.requires_grad for parameter in self.task.objective.parameters()):
            text = f"phase `{self.job.phase.name}`: an objective with weights of its own cannot be sharded"
            raise fail("A1109", text, None, 'set training.sharding = "none"')
        from archir_torch.training.shards import shard  # importing FSDP takes seconds

        shard(self.network)

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Make one update of the weights."""
        if self.job.phase.training.drop_path == "linear":
            self.paths.scale(index // self.steps / self.epochs)
        self.task.begin(index)
        update = self.learner.update(lambda part: self.task.loss(self.call, part, index), index, self.feed.batch(index))
        return {"loss": update.loss}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return the measures on the held-out data."""
        if (epoch + 1) % self.options.evaluate_every and epoch + 1 < self.epochs:
            return {}
        with self.learner.evaluating():
            return as_held_out(self.task.measure(self.network, self.job.data.held_out))

    def state(self) -> State:
        """Return the learner's state."""
        return self.learner.state()

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self.learner.restore(state)

    def finished(self) -> str | None:
        """Return None: training lasts until the last epoch."""
        return None

    def outcome(self) -> Outcome:
        """Return the architecture, its network (with the first output only), and the weights."""
        with self.learner.evaluating():
            weights = {name: full_tensor(tensor).detach().clone() for name, tensor in self.network.state_dict().items()}
        name, number = next(iter(self.graph.outputs.items()))
        deployed = expose(self.graph, {name: number})
        return Outcome(architecture=self.architecture, network=deployed, weights=weights)


def _needs_architecture(phase: Phase, space: Space) -> Diagnostic:
    """Return the error (A2205) for a phase that does not say which architecture of its space to train."""
    hint = 'start.architecture = "..." names a phase that derives one; or set it: fixed = { "*" = "largest" }'
    return Diagnostic("A2205", f"phase `{phase.name}` trains one architecture, but `{space.name}` has many", None, hint)
