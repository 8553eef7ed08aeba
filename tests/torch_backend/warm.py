"""What processes of tests need and take seconds to import: read once, by the process that they are forked from."""

import torch
import torch._dynamo
import torch.distributed.tensor

import archir_onnx  # noqa: F401
import archir_torch.strategies.train
import archir_torch.training.shards  # noqa: F401

torch.set_num_threads(1)
