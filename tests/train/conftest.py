"""One thread a test: the models are tiny, and other tests run beside."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
