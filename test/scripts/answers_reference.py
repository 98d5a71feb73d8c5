#!/usr/bin/env python3
"""Writes answers.json beside a model's reference.json: greedy answers to the prompts of its samples, by PyTorch.

    answers_reference.py test/data/tiny-internvl

Every token is that of the largest logit over the whole sample so far, in float64. A prompt is a sample up to its first
label behind the last placeholder of a picture.
"""
import json
import sys

from gradient_projections import Model  # first: it says that nothing is downloaded
import torch

TOKENS = 8


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    model = Model(folder)
    model.model.to(torch.float64)
    answers, nearest = {}, float("inf")
    for key, sample in model.samples.items():
        ids, labels = sample["input_ids"], sample["labels"]
        last = max((t for t, token in enumerate(ids) if token == model.image_token), default=0)
        begin = next((t for t in range(last + 1, len(ids)) if labels[t] != -100), None)
        if begin is None:
            continue
        end = next((t for t in range(begin, len(ids)) if labels[t] == -100), len(ids))
        sample["input_ids"], said = ids[:begin], []
        for _ in range(TOKENS):
            best = {}
            # loss_of leaves out the last row, which is the one of interest: one more token brings it in.
            sample["input_ids"] = [*sample["input_ids"], 0]
            sample["labels"] = sample["input_ids"]
            with torch.no_grad():
                model.loss_of(key, torch.float64, lambda rows, labels: best.update(rows=rows) or rows.sum())
            two = torch.topk(best["rows"][-1], 2)
            nearest = min(nearest, float(two.values[0] - two.values[1]))
            said.append(int(two.indices[0]))
            sample["input_ids"][-1] = said[-1]
        answers[key] = {"ids": said, "expected": ids[begin:end]}
    print(f"{len(answers)} samples; the nearest second token is {nearest:.2e} below the first")
    with open(f"{folder}/answers.json", "w", encoding="utf-8") as file:
        json.dump(answers, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
