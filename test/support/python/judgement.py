"""How far a training run may be from PyTorch's float64 one (reference.json and gradients.json of a model's folder).

float32: a loss, a gradient norm and every projection of a parameter's gradient (projections.py) may be off by four times
what PyTorch's own float32 run is, or 1e-6 relative (a projection: of its gradient's norm), whichever is more.
bfloat16: a loss by 5e-4, a norm by 3e-3, what the loss has lost at the end by 3 %.
"""
import json
import math
import os

from projections import RMS, norm, projections

FLOOR = 1e-6
# A gradient that is zero in exact arithmetic is rounding alone: of the global norm.
NOTHING = 1e-11


class Float32:
    @staticmethod
    def of_number(value, step, name):
        exact, single = float(step[name + "_float64"]), float(step[name + "_float32"])
        return abs(value - exact) / max(4 * abs(single - exact), FLOOR * abs(exact))

    @staticmethod
    def of_decrease(losses, expected):
        return 0.0  # follows from the losses

    @staticmethod
    def of_projection(deviation, row, global_norm):
        return deviation / (max(4 * float(row["float32_deviation"]), FLOOR * float(row["norm"])) + NOTHING * global_norm)


class BFloat16:
    LIMITS = {"loss": 5e-4, "grad_norm": 3e-3}

    @staticmethod
    def of_number(value, step, name):
        return abs(value / float(step[name + "_float64"]) - 1) / BFloat16.LIMITS[name]

    @staticmethod
    def of_decrease(losses, expected):
        if len(losses) < 2:
            return 0.0
        return abs((losses[0] - losses[-1]) / (expected[0] - expected[-1]) - 1) / 0.03

    @staticmethod
    def of_projection(deviation, row, global_norm):
        return deviation / (RMS * (0.03 * float(row["norm"]) + 1e-3 * global_norm))


def steps_of(folder, reference):
    """PyTorch's steps: those of reference.json, and those that go on in longer.json where a model has it."""
    steps, path = list(reference["steps"]), os.path.join(folder, "longer.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            steps += json.load(file)
    return steps


class Judgement:
    """Shares of the tolerance that a run used; above 1 is a failure."""

    def __init__(self, folder, variant, steps, rule):
        with open(os.path.join(folder, "reference.json"), encoding="utf-8") as file:
            whole = json.load(file)
        self.reference, self.optimizer = whole["variants"][variant], whole["optimizer"]
        with open(os.path.join(folder, "gradients.json"), encoding="utf-8") as file:
            self.rows = json.load(file)
        known = self.reference["steps"]
        if steps and steps > len(known):
            known = steps_of(folder, self.reference)
        self.steps, self.rule = known[:steps], rule
        self.names = self.reference["gradient_norms_step0_float64"].keys()
        self.global_norm = math.sqrt(sum(float(self.rows[name]["norm"]) ** 2 for name in self.names))
        self.worst, self.failures = {}, []

    def note(self, kind, share, where, failure):
        if not share <= self.worst.get(kind, (0.0, ""))[0]:
            self.worst[kind] = share, where
        if not share <= 1:  # also where it is not a number
            self.failures.append(f"{failure} ({share:.2f} of the tolerance)")

    def log(self, entries):
        if len(entries) != len(self.steps):
            self.failures.append(f"{len(entries)} steps in the log, expected {len(self.steps)}")
            return
        for entry, step in zip(entries, self.steps, strict=True):
            number = step["step"]
            if (entry["step"], entry["label_tokens"]) != (number, step["label_tokens"]):
                self.failures.append(f"step {number}: {entry}, expected {step['label_tokens']} label tokens")
            for name in ("loss", "grad_norm"):
                self.note(name, self.rule.of_number(entry[name], step, name), f"step {number}",
                          f"step {number}: {name} {entry[name]!r}, PyTorch {step[name + '_float64']}")
        losses, expected = [entry["loss"] for entry in entries], [float(step["loss_float64"]) for step in self.steps]
        self.note("decrease", self.rule.of_decrease(losses, expected), "", f"losses {losses}, PyTorch {expected}")

    def gradients(self, tensors):
        """Of the first step, by name."""
        names = self.names
        if names != tensors.keys():
            self.failures.append(f"gradients of other parameters: missing {sorted(names - tensors.keys())[:5]}, "
                                 f"surplus {sorted(tensors.keys() - names)[:5]}")
        for name in names & tensors.keys():
            self.gradient(name, tensors[name])

    def gradient(self, name, values):
        row = self.rows[name]
        found, expected = projections(name, values), [float(p) for p in row["projections"]]
        deviation = max(abs(a - b) for a, b in zip(found, expected, strict=True))
        self.note("projections", self.rule.of_projection(deviation, row, self.global_norm), name,
                  f"gradient of {name}: projections {found}, PyTorch {expected}; norm {norm(values)!r}, PyTorch {row['norm']}")

    def summary(self):
        return "share of the tolerance used: " + ", ".join(
            f"{kind} {share:.3f}" + (f" ({where})" if where else "") for kind, (share, where) in self.worst.items())
