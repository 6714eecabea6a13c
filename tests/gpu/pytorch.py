#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A registration cache under PyTorch's allocator, on a real GPU.

Tensors come and go, a small network is trained between, freed memory is given back to CUDA now
and then; each tensor that is there is used through the cache. No get may fail, and none may
find what was registered of memory that was freed.

usage: pytorch.py LIBRARY [OPERATIONS [SEED]]     LIBRARY: libtorch-uses.so of the build

PyTorch's settings are the caller's: PYTORCH_CUDA_ALLOC_CONF. Exits with 77 where there is no PyTorch.
"""

import ctypes
import os
import random
import sys

try:
    import torch
except ImportError:
    print("skipped: this machine has no PyTorch")
    sys.exit(77)

FIELDS = ["gets", "hits", "stale", "invalidations", "monitors", "bytes", "failed", "wrong", "dead", "spanning"]
HOOKS = 1 << 3  # PEERDMA_MONITOR_HOOKS


class Told(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


def network():
    layers = [torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)]
    net = torch.nn.Sequential(*layers).cuda()
    return net, torch.optim.Adam(net.parameters())


def train(net, optimizer, use):
    given = torch.randn(random.choice([64, 512, 4096]), 1024, device="cuda")
    loss = (net(given) - given).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for parameter in net.parameters():
        use(parameter.grad)
    optimizer.step()


def main():
    uses = ctypes.CDLL(sys.argv[1])
    operations = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    torch.zeros(1, device="cuda")
    if uses.torch_uses_open():
        return 1

    def use(tensor):
        length = tensor.numel() * tensor.element_size()
        first = random.randrange(length)
        many = random.randrange(length - first) + 1
        uses.torch_uses(ctypes.c_uint64(tensor.data_ptr() + first), ctypes.c_uint64(many))
        uses.torch_uses(ctypes.c_uint64(tensor.data_ptr()), ctypes.c_uint64(length))

    net, optimizer = network()
    tensors = []
    for operation in range(operations):
        what = random.random()
        if what < 0.45 or not tensors:
            size = random.choice([1 << 16, 1 << 20, 3 << 20, 20 << 20, 100 << 20])
            tensors.append(torch.empty(random.randrange(size // 2, size), dtype=torch.uint8, device="cuda"))
        elif what < 0.8 or len(tensors) > 60:
            tensors.pop(random.randrange(len(tensors)))
        elif what < 0.9:
            train(net, optimizer, use)
        elif what < 0.92:
            tensors.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
        elif what < 0.95:
            torch.cuda.empty_cache()
        if operation % 500 == 499:
            tensors.clear()
            torch.cuda.empty_cache()
        for tensor in random.sample(tensors, min(3, len(tensors))):
            use(tensor)

    told = Told()
    uses.torch_uses_tell(ctypes.byref(told))
    print(f"PyTorch {torch.__version__}, {os.environ.get('PYTORCH_CUDA_ALLOC_CONF', 'its own settings')}, "
          f"{'hooks' if told.monitors & HOOKS else 'no hooks'}")
    print(", ".join(f"{name} {getattr(told, name)}" for name in FIELDS))
    good = not told.failed and not told.wrong and not told.dead
    # Something was freed, and noticed.
    good = good and told.hits and told.stale + told.invalidations > 0
    print("ok" if good else "not ok - a get failed, or found what was freed, or nothing was ever noticed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
