# SPDX-License-Identifier: MIT
# hello.py - one epoch of uint8 tensors, without a DataLoader.
import sys
import pyplenum.torch

loader = pyplenum.torch.Loader(sys.argv[1], "rrc(224) flip(0.5)", seed=1, micro_batch=32, last="drop")
for images, labels in loader:              # uint8 [N, 3, 224, 224], int64 [N]
    pass                                   # train here; convert and normalise on the accelerator
print(f"{loader.stream.num_samples} images, {len(loader)} batches for this process")
