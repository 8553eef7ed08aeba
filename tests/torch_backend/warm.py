"""Modules that tests' processes need and that take seconds to import: imported once, before processes are forked."""

import torch
import torch._dynamo
import torch.distributed.tensor

import archir_onnx  # noqa: F401
import archir_torch.strategies.train
import archir_torch.training.shards  # noqa: F401

torch.set_num_threads(1)
