"""A roofline with the efficiencies that one model's calibration shows: how far it serves other models.

The roofline of a layer is FLOPs of its products / rate + bytes of the rest / rate, one after the other (passes/cost). The
two rates are fitted to the measured layer times of a calibrated model, by least squares of relative errors; all layers of
other models then cost what these rates say.
"""
import json

ONE, NEVER = 10 ** 10, 10 ** 18  # FLOP/s and bytes/s: a rate to divide by, and one that takes no time


def cluster(flops, bytes_per_s, stages, replicas=1, link=None, data_parallel=None):
    """A cluster file's object: a device of these rates, with the messages' speed where it is known."""
    device = {"name": "fitted", "flops": {"float32": round(flops)}, "memory_bytes": 1 << 40, "bytes_per_s": round(bytes_per_s)}
    result = {"stages": stages, "device": device}
    if link:
        result["link"] = link
    if replicas > 1:
        result["data_parallel"] = {"size": replicas, **(data_parallel or {})}
    return result


def times(problem):
    """Nanoseconds of every layer, forward and backward."""
    found = []
    for layer in problem["layers"]:
        found += [layer["forward_ns"], layer["input_grad_ns"] + layer["weight_grad_ns"]]
    return found


def fit(of_products, of_bytes, measured):
    """(FLOP/s, bytes/s) from times at rate ONE of products alone and of bytes alone, and measured times."""
    rows = [(f / t, b / t) for f, b, t in zip(of_products, of_bytes, measured, strict=True) if t > 0 and f + b > 0]
    ff, fb, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    f, b = (sum(r[i] for r in rows) for i in (0, 1))
    determinant = ff * bb - fb * fb
    x, y = (f * bb - b * fb) / determinant, (b * ff - f * fb) / determinant
    if x <= 0 or y <= 0:  # one of the terms explains nothing: the other alone
        x, y = (f / ff, 0) if y <= 0 else (0, b / bb)
    return tuple(ONE / share if share > 0 else NEVER for share in (x, y))


class Rates:
    """Rates of products and bytes that a model's calibration shows on this machine."""

    def __init__(self, problem_of, calibration):
        """`problem_of(cluster)` is the model's planning problem by a roofline, `problem_of(None)` by its calibration."""
        only = [times(problem_of(cluster(*rates, stages=2))) for rates in ((ONE, NEVER), (NEVER, ONE))]
        measured = times(problem_of(None))
        self.flops, self.bytes_per_s = fit(*only, measured)
        self.link = calibration.get("link")
        self.data_parallel = calibration.get("data_parallel")
        fitted = [f * ONE / self.flops + b * ONE / self.bytes_per_s for f, b in zip(*only)]
        self.worst = max(abs(a / b - 1) for a, b in zip(fitted, measured) if b > 0)

    def cluster(self, stages, replicas):
        return cluster(self.flops, self.bytes_per_s, stages, replicas, self.link, self.data_parallel if replicas > 1 else None)

    def __str__(self):
        return f"{self.flops / 1e9:.1f} GFLOP/s, {self.bytes_per_s / 1e9:.1f} GB/s; layers of this model fitted within {self.worst:.0%}"


def read(path):
    with open(path) as file:
        return json.load(file)
