"""A small model's training: its samples and steps on disk for omnibal-run, and the same steps in PyTorch."""
import json
import tarfile

from shards import add_sample

RATE = 1e-3
# AdamW divides by the gradient's own size, so an element whose gradient is nothing but rounding would go its whole rate in
# the direction of the rounding, with other float32 code elsewhere. Gradients here are 1e-3 to 1, their rounding below 1e-6.
EPSILON = 1e-5


def key_of(number):
    return f"s{number:03d}"


def write_samples(folder, samples):
    """data-000000.tar with [(what the shard says, pictures)]."""
    with tarfile.open(f"{folder}/data-000000.tar", "w") as tar:
        for number, (sample, pictures) in enumerate(samples):
            add_sample(tar, key_of(number), sample, pictures)


def write_steps(folder, count, groups, group):
    """Steps of so many groups of so many samples, in order: [[[number]]] and steps.jsonl."""
    each = groups * group
    steps = [[list(range(first, first + group)) for first in range(step, step + each, group)] for step in range(0, count, each)]
    with open(f"{folder}/steps.jsonl", "w") as file:
        for step in steps:
            file.write(json.dumps({"groups": [[key_of(number) for number in group] for group in step]}) + "\n")
    return steps


def caps(steps, units, lengths):
    """--tiles and --tokens that fit every group, from the units and tokens of each sample."""
    groups = [group for step in steps for group in step]
    return ["--tiles", max(1, *(sum(units[n] for n in group) for group in groups)),
            "--tokens", max(sum(lengths[n] for n in group) for group in groups)]


def training(folder):
    """What omnibal-run is told to train on the samples as `pytorch_steps` does."""
    return ["--data", f"{folder}/data-000000.tar", "--steps-file", f"{folder}/steps.jsonl", "--lr", RATE,
            "--eps", EPSILON, "--weight-decay", 0, "--clip", 0, "--log", f"{folder}/run.jsonl"]


def logged(folder):
    """(loss, gradient norm) of each step of omnibal-run."""
    with open(f"{folder}/run.jsonl") as file:
        return [(line["loss"], line["grad_norm"]) for line in map(json.loads, file)]


def largest_difference(ours, theirs):
    """The largest relative difference of losses and gradient norms."""
    return max(abs(a / b - 1) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def pytorch_steps(model, parameters, steps):
    """(loss, gradient norm) of each step of AdamW, every sample alone; a step is [(labels, what the model takes)]."""
    import torch
    optimizer = torch.optim.AdamW(parameters, lr=RATE, eps=EPSILON, weight_decay=0.0)
    for samples in steps:
        count = sum(label != -100 for labels, _ in samples for label in labels[1:])
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for labels, inputs in samples:
            logits = model(**inputs, use_cache=False).logits[0]
            loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(labels[1:]), reduction="sum") / count
            loss.backward()
            total += float(loss)
        yield total, float(torch.nn.utils.clip_grad_norm_(parameters, float("inf")))
        optimizer.step()
