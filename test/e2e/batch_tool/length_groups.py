"""Checks a folder with length groups from its files alone, with NumPy: rules g1 to g5, time and bounds."""
import json
import math
import os

import numpy as np


def close(said, found, what):
    assert math.isclose(said, found, rel_tol=1e-9, abs_tol=1e-12), f"{what}: {said} is said, {found} found"


def bound(lengths, groups, stages):
    """LB over these groups: every sample's least time in any mode, the best theta."""
    v, t = lengths[:, 0].astype(float), lengths[:, 1].astype(float)
    best = 0.0
    for theta in np.arange(9) / 8:
        least = np.full(len(t), np.inf)
        for g in groups:
            c, m = g["cost"], g["microbatches"]
            share = theta * t / g["tokens_cap"] + (1 - theta) * v / g["tiles_cap"]
            load = c["tile_ns"] * v + c["token_ns"] * t + c["square_ns"] * t * t + c["microbatch_ns"] * share
            time = ((1 + (stages - 1) / m) * load + c["step_ns"] * share / m) / g["ranks"]
            least = np.where((v <= g["tiles_cap"]) & (t <= g["tokens_cap"]), np.minimum(least, time), least)
        best = max(best, math.fsum(least))
    return best


def imbalance(rows):
    """Mean over rows of 1 - mean / max, rows without load left out."""
    ratios = [1 - row.mean() / row.max() for row in rows if row.max() > 0]
    return float(np.mean(ratios)) if ratios else 0.0


def step_variance(lengths, steps, block):
    means, counts = [], []
    for i in range(0, len(steps) - block + 1, block):
        tokens, samples = np.sum(steps[i:i + block], axis=0)
        means.append(tokens / samples)
        counts.append(samples)
    variance = lengths[:, 1].astype(float).var()
    if len(means) < 2 or variance <= 0:
        return 0.0
    return float(np.var(means, ddof=1) / (variance * np.mean(1 / np.asarray(counts, float))))


class Folder:
    def __init__(self, path):
        for name in ("batches", "groups"):
            with open(os.path.join(path, f"{name}.json"), encoding="utf-8") as file:
                setattr(self, name, json.load(file))
        self.samples, self.offsets, self.rows, self.lengths = (
            np.load(os.path.join(path, f"{name}.npy")) for name in ("samples", "groups", "rows", "lengths"))


def check(path, candidates):
    """Asserts everything that a folder promises; `candidates` is the object of the candidates' file."""
    f = Folder(path)
    groups, stages = f.groups["groups"], f.groups["stages"]
    assert f.rows.dtype == np.int32 and f.rows.ndim == 2 and f.rows.shape[1] == 2
    assert np.array_equal(np.sort(f.samples), np.arange(len(f.lengths))), "g1: a sample is missing or twice"
    assert f.offsets[0] == 0 and f.offsets[-1] == len(f.samples) and (np.diff(f.offsets) >= 0).all()
    v, t = (np.concatenate([[0], np.cumsum(f.lengths[f.samples, i], dtype=np.int64)]) for i in (0, 1))
    s = np.concatenate([[0], np.cumsum(f.lengths[f.samples, 1].astype(np.int64) ** 2)])
    v, t, s = ((x[f.offsets[1:]] - x[f.offsets[:-1]]).astype(float) for x in (v, t, s))
    sizes, begin, rows = np.diff(f.offsets), 0, []
    for r, (mode, step) in enumerate(f.rows):
        g = groups[mode]
        part = slice(begin, begin + g["ranks"])
        begin += g["ranks"]
        assert g["ranks"] * g["degree"] == f.groups["replicas"]
        assert sizes[part].sum() > 0 and len(sizes[part]) == g["ranks"], f"g2: row {r}"
        assert v[part].max() <= g["tiles_cap"] and t[part].max() <= g["tokens_cap"], f"g2: row {r} is over the caps"
        c = g["cost"]
        rows.append({"mode": mode, "step": step, "v": v[part], "t": t[part], "s": s[part], "samples": sizes[part].sum(),
                     "cost": c["tile_ns"] * v[part] + c["token_ns"] * t[part] + c["square_ns"] * s[part],
                     "empty": (sizes[part] == 0).any()})
    assert begin == len(sizes), "g2: groups are left over"
    epoch, steps, step_modes, ended = 0.0, [], [], {}
    numbers = f.rows[:, 1]
    assert numbers[0] == 0 and np.isin(np.diff(numbers), (0, 1)).all(), "g3: steps are not in order"
    for step in range(numbers[-1] + 1):
        members = rows[np.searchsorted(numbers, step):np.searchsorted(numbers, step, side="right")]
        mode, g = members[0]["mode"], groups[members[0]["mode"]]
        assert all(r["mode"] == mode for r in members), f"g3: step {step} has two length groups"
        assert mode not in ended, f"g3: step {step} follows a short one"
        if len(members) < g["microbatches"] or any(r["empty"] for r in members):
            ended[mode] = step
        assert len(members) <= g["microbatches"] and not any(r["empty"] for r in members[:-1]), f"g3: step {step}"
        times = [g["cost"]["microbatch_ns"] + r["cost"].max() for r in members]
        epoch += math.fsum(times) + (stages - 1) * max(times) + g["cost"]["step_ns"]
        steps.append((sum(r["t"].sum() for r in members), sum(r["samples"] for r in members)))
        step_modes.append(mode)
    facts = f.groups
    close(facts["epoch_ns"], epoch, "epoch_ns")
    close(facts["bound_ns"], bound(f.lengths, groups, stages), "bound_ns")
    close(facts["bound_all_ns"], bound(f.lengths, candidates["groups"], stages), "bound_all_ns")
    close(facts["gap"], epoch / facts["bound_all_ns"] - 1, "gap")
    assert facts["bound_all_ns"] <= facts["bound_ns"] * (1 + 1e-9) and facts["bound_ns"] <= epoch * (1 + 1e-9), "g5"
    for part, members in [(facts, rows)] + [(g, [r for r in rows if r["mode"] == m]) for m, g in enumerate(groups)]:
        for key, name in (("v", "dist_ratio_vit"), ("t", "dist_ratio_llm"), ("cost", "dist_ratio_cost"), ("s", "abr")):
            close(1 + part[name], 1 + imbalance([r[key] for r in members]), name)
        if part is not facts:
            assert part["rows"] == len(members) and part["samples"] == sum(r["samples"] for r in members)
            assert part["tokens"] == sum(r["t"].sum() for r in members)
    context = np.array([groups[m]["degree"] > 1 for m in step_modes])
    close(facts["cr"], context.mean(), "cr")
    close(facts["ave_tokens"], t.sum() / len(sizes), "ave_tokens")
    for block in (8, 32):
        close(1 + facts[f"step_variance_{block}"], 1 + step_variance(f.lengths, steps[facts["curriculum"]:], block), "step_variance")
    b = f.batches
    assert (b["rows"], b["steps"], b["groups"]) == (len(rows), len(steps), len(sizes))
    assert b["ranks"] == facts["replicas"] and b["length_groups"] == len(groups) and b["samples"] == len(f.lengths)
    return f
