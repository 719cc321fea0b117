#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of compare_accuracy.py.

    torch_accuracy.py FOLDER NET THREADS EPOCHS BATCH LR SEED GOAL

trains on IDX files (packed by gzip or not) with a one-cycle schedule, which moves
momentum, too, and weight decay 0.0005, and prints the seconds of training after which the test
images were first seen to be told with that accuracy ("never"), then the last
accuracy. They are looked at four times an epoch, which does not count.
"""
import gzip
import os
import sys
import time

sys.dont_write_bytecode = True
import torch_net  # noqa: E402

LOOKS = 4  # an epoch


def read(folder, name, skipped):
    path = os.path.join(folder, name)
    reader = open if os.path.exists(path) else gzip.open
    with reader(path if reader is open else path + '.gz', 'rb') as file:
        return file.read()[skipped:]


def load(folder, part, shape):
    import numpy
    import torch
    x = numpy.frombuffer(read(folder, part + '-images-idx3-ubyte', 16),
                         numpy.uint8).astype(numpy.float32)
    y = numpy.frombuffer(read(folder, part + '-labels-idx1-ubyte', 8),
                         numpy.uint8).astype(numpy.int64)
    return (torch.from_numpy(x.reshape(-1, *shape)).sub_(33.3).div_(78.6),
            torch.from_numpy(y))


def accuracy(net, x, y):
    import torch
    net.eval()
    with torch.no_grad():
        told = sum(int((net(x[i:i + 1000]).flatten(1).argmax(1)
                        == y[i:i + 1000]).sum())
                   for i in range(0, len(x), 1000))
    net.train()
    return told / len(x)


def main():
    folder, path = sys.argv[1:3]
    threads, epochs, batch, rate, seed, goal = map(float, sys.argv[3:])
    batch = int(batch)
    try:
        import torch
    except ImportError as missing:
        print(missing, file=sys.stderr)
        return 77
    from torch.nn.functional import cross_entropy
    torch.set_num_threads(int(threads))
    torch.manual_seed(int(seed))
    with open(path, encoding='utf-8') as file:
        net, shape, _ = torch_net.build(file.read())
    x, y = load(folder, 'train', shape)
    test = load(folder, 't10k', shape)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9,
                                weight_decay=5e-4)  # OneCycleLR: 0.95 to 0.85
    an_epoch = len(x) // batch
    total = max(1, int(an_epoch * epochs))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate,
                                                   total_steps=total,
                                                   pct_start=0.2)
    spent, first, last = 0.0, 'never', 0.0
    for step in range(total):
        at = step % an_epoch
        began = time.perf_counter()
        if at == 0:
            order = torch.randperm(len(x))
        chosen = order[at * batch:(at + 1) * batch]
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(net(x[chosen]).flatten(1), y[chosen]).backward()
        optimizer.step()
        schedule.step()
        spent += time.perf_counter() - began
        if (step + 1) % max(1, an_epoch // LOOKS) == 0 or step + 1 == total:
            last = accuracy(net, *test)
            if last >= goal and first == 'never':
                first = f'{spent:.3f}'
    print(first, f'{last:.4f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
