"""Folders of omnibal-batch with length groups, made of the steps of reference.json.

A step's losses and gradients are sums over its samples, whatever micro-batches they are in. So the samples of every
step are put into the rows of some training mode, and PyTorch's numbers stay what they are. A sample of several steps
is several samples of the data, as an epoch has each once.
"""
import json
import os
import shutil
import struct
import tarfile
import tempfile
import unittest

from judgement import steps_of
from reference_losses import sample_sizes


def write_npy(path, dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{'q' if dtype == '<i8' else 'i'}", *values))


class Samples:
    """The samples of all steps, each under a key of its own."""

    def __init__(self, model, steps, shard):
        source = os.path.join(model, "data-000000.tar")
        sizes = sample_sizes(source)
        self.sizes, self.of_step, keys = [], [], []
        for step in steps:
            self.of_step.append([])
            for key in (key for group in step["groups"] for key in group):
                self.of_step[-1].append(len(keys))
                keys.append(key)
                self.sizes.append(sizes[key])
        with tarfile.open(source) as tar, tarfile.open(shard, "w") as out:
            members = {}
            for member in tar:
                members.setdefault(member.name.split(".")[0], []).append(member)
            for number, key in enumerate(keys):
                for member in members[key]:
                    content = tar.extractfile(member)
                    member.name = f"{number:06}{member.name[len(key):]}"
                    out.addfile(member, content)
                    member.name = key + member.name[6:]

    def pack(self, step, count):
        """The step's samples in so many groups of about equal numbers of tokens."""
        groups = [[] for _ in range(count)]
        tokens = [0] * count
        for sample in sorted(self.of_step[step], key=lambda s: (-self.sizes[s][1], s)):
            least = tokens.index(min(tokens))
            groups[least].append(sample)
            tokens[least] += self.sizes[sample][1]
        return groups

    def load(self, group):
        return tuple(sum(self.sizes[s][i] for s in group) for i in (0, 1))


class Mode:
    """A length group, in which `degree` replicas share a micro-batch; caps hold any step of `samples` in its rows."""

    def __init__(self, name, microbatches, samples, replicas, degree=1, **fields):
        self.name, self.microbatches, self.replicas, self.fields = name, microbatches, replicas, fields
        self.degree, self.ranks = degree, replicas // degree
        loads = [samples.load(group) for step in range(len(samples.of_step))
                 for group in samples.pack(step, microbatches * self.ranks)]
        self.tiles, self.tokens = (max(load[i] for load in loads) for i in (0, 1))

    def json(self):
        cost = {"tile_ns": 100, "token_ns": 10, "square_ns": 0, "microbatch_ns": 1, "step_ns": 1}
        return {"name": self.name, "tiles_cap": self.tiles, "tokens_cap": self.tokens, "degree": self.degree,
                "ranks": self.ranks, "microbatches": self.microbatches, **self.fields, "cost": cost}


def write_folder(folder, samples, modes, mode_of_step, stages=1, cuts=None):
    """An epoch whose step k has the samples of step k, in the rows of modes[mode_of_step[k]]."""
    os.makedirs(folder)
    rows, groups = [], []
    for step, mode in enumerate(mode_of_step):
        count = modes[mode].microbatches * modes[mode].ranks
        groups += samples.pack(step, count)
        rows += [(mode, step)] * modes[mode].microbatches
    taken = [sample for group in groups for sample in group]
    offsets = [0]
    for group in groups:
        offsets.append(offsets[-1] + len(group))
    # A folder of few of the steps is about few of the samples.
    lengths = samples.sizes[:len(taken)]
    assert sorted(taken) == list(range(len(lengths)))
    for name, dtype, shape, values in (("samples", "<i8", [len(taken)], taken), ("groups", "<i8", [len(offsets)], offsets),
                                       ("lengths", "<i4", [len(lengths), 2], [x for pair in lengths for x in pair]),
                                       ("rows", "<i4", [len(rows), 2], [x for pair in rows for x in pair])):
        write_npy(os.path.join(folder, f"{name}.npy"), dtype, shape, values)
    described = [mode.json() | {"steps": mode_of_step.count(number)} for number, mode in enumerate(modes)]
    whole = {"schema": "omnibal.length-groups/1", "replicas": modes[0].replicas, "stages": stages, "tokens_per_step": 1000}
    write_json(folder, "groups", whole | ({"cuts": cuts} if cuts else {}) | {"groups": described})
    write_json(folder, "batches", {
        "method": "plan", "tiles_cap": max(mode.tiles for mode in modes), "tokens_cap": modes[-1].tokens,
        "ranks": modes[0].replicas, "seed": 0, "epoch": 0, "oversize_policy": "error", "length_groups": len(modes),
        "samples": len(lengths), "groups": len(groups), "rows": len(rows), "steps": len(mode_of_step), "oversize": []})


def write_json(folder, name, content):
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(content, file)


class ModeCase(unittest.TestCase):
    """A folder of its own, in which the samples of MODEL's steps are a shard; with LONGER those of longer.json, too."""
    MODEL = None
    LONGER = False

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-modes-")
        self.addCleanup(shutil.rmtree, self.work)
        with open(f"{self.MODEL}/reference.json") as file:
            reference = json.load(file)["variants"]["train_all"]
        self.steps = steps_of(self.MODEL, reference) if self.LONGER else reference["steps"]
        self.shard = self.path("data-000000.tar")
        self.samples = Samples(self.MODEL, self.steps, self.shard)

    def path(self, name):
        return os.path.join(self.work, name)
