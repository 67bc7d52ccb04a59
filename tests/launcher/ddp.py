# SPDX-License-Identifier: MIT
"""A PyTorch program written for torchrun, without any knowledge of plenumrun."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")  # env://: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(dist.get_rank())
for _ in range(10):
    optimizer.zero_grad()
    model(torch.randn(8, 10)).square().mean().backward()
    optimizer.step()
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
everybodys = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(everybodys, weights)
same = all(torch.equal(w, weights) for w in everybodys)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, local {os.environ['LOCAL_RANK']}: "
      f"{'the same' if same else 'other'} weights, {weights.square().sum():.6f}")
dist.destroy_process_group()
