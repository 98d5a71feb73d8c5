#!/usr/bin/env python3
"""Balanced batches in a plain PyTorch training loop.

    omnibal-batch LENGTHS.csv --tiles 9 --tokens 4096 --ranks 2 -o batches
    torchrun --nproc-per-node 2 train.py LENGTHS.csv batches

The "model" and the data are stand-ins; what is real is how batches are drawn, packed and resumed.
"""
import argparse
import csv
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))
from omnibal_batches import BalancedBatchSampler

WIDTH = 16


class Samples(Dataset):
    """Sample n is line n of LENGTHS.csv (from 0): so many tiles and tokens, with random content."""

    def __init__(self, path):
        with open(path, newline="") as file:
            self.lengths = [(int(row["vit_num"]), int(row["token_num"])) for row in csv.DictReader(file)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, number):
        tiles, tokens = self.lengths[number]
        generator = torch.Generator().manual_seed(number)
        return torch.randn(tiles, WIDTH, generator=generator), torch.randn(tokens, WIDTH, generator=generator)


def pack(samples):
    """One row of tokens without padding; `borders` keeps the samples apart (as cu_seqlens for flash attention)."""
    lengths = [len(tokens) for _, tokens in samples]
    empty = torch.empty(0, WIDTH)  # a group may be empty: more ranks than samples, the end of an epoch
    return dict(tiles=torch.cat([tiles for tiles, _ in samples] or [empty]),
                tokens=torch.cat([tokens for _, tokens in samples] or [empty]),
                borders=torch.tensor([0, *lengths]).cumsum(0))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision, self.language = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, tiles, tokens, borders):
        """Sum of a loss over the tokens; touches every parameter whatever the batch holds."""
        picture = self.vision(tiles).sum(0) / max(1, len(tiles))
        return (self.language(tokens + picture) - 1).square().sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths")
    parser.add_argument("batches", help='folder of omnibal-batch; "batches/{epoch}" for a folder an epoch')
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop after so many steps of this run")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    # Behind the optimizer, whose construction imports modules of PyTorch that keep the group they find (as default
    # arguments). destroy_process_group would not end it, and its threads would abort the interpreter's end now and then.
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if ranks > 1 else 0
    dataset = Samples(arguments.lengths)
    sampler = BalancedBatchSampler(arguments.batches, samples=len(dataset))
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=pack, num_workers=arguments.workers)

    epoch, position = 0, 0
    if os.path.exists(arguments.checkpoint):
        state = torch.load(arguments.checkpoint)
        epoch, position = state["epoch"], state["position"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    steps, began, totals = 0, time.time(), torch.zeros(3)
    while epoch < arguments.epochs:
        sampler.set_epoch(epoch, start=position)
        for batch in loader:
            if steps == arguments.steps:
                break
            loss = model(**batch)
            optimizer.zero_grad()
            loss.backward()
            # Sums over all ranks, then one division by all tokens: no token counts more than another.
            tokens = torch.tensor(float(len(batch["tokens"])))
            sums = [p.grad for p in model.parameters()] + [tokens, loss.detach()]
            for value in sums if ranks > 1 else []:
                dist.all_reduce(value)
            for parameter in model.parameters():
                parameter.grad /= tokens.clamp(min=1)
            optimizer.step()
            steps, position = steps + 1, position + 1
            totals += torch.tensor([len(batch["borders"]) - 1, len(batch["tiles"]), len(batch["tokens"])])
        if steps == arguments.steps:
            break
        epoch, position = epoch + 1, 0
    if rank == 0:
        torch.save(dict(epoch=epoch, position=position, model=model.state_dict(), optimizer=optimizer.state_dict()),
                   arguments.checkpoint)
    samples, tiles, tokens_seen = totals.long().tolist()
    last = f", last loss {sums[-1] / sums[-2]:.6f}" if steps else ""
    print(f"rank {rank}: {steps} steps, {samples} samples, {tiles} tiles, {tokens_seen} tokens{last}, "
          f"{time.time() - began:.1f} s")
    if ranks > 1:
        dist.barrier()  # a rank that leaves early takes the others' connections with it
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
