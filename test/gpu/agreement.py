"""Whether two trainings are of the same model on the same data, by losses and gradient norms of every step.

The tolerances are ten times what correct pairs show (docs/gpu-results.md says which and how much). Random tokens would
show little: their loss is ln V whatever a model computes. So the loss has to fall too (make_data.py). Of the norms the
median deviation counts: a step where the norm is a peak multiplies what the steps before it have rounded.
"""
import statistics

# By how PyTorch computes: largest relative deviation of the losses, median one of the gradient norms.
ALLOWED = {"float32": (1e-6, 2e-6), "autocast": (2e-3, 5e-3), "masters": (4e-3, 1e-2)}
# How many of the first steps count, where not all do: what float32 has rounded grows from one to the next, beyond these bounds.
STEPS = {"float32": 7}
LEAST_FALL = 0.03  # of the first loss


def deviations(ours, theirs, mode):
    """(largest of losses, median of norms), relative to theirs, of the steps that count. NaN where a number of any step is none."""
    found = []
    for name, choose in (("loss", max), ("norm", statistics.median)):
        apart = [abs(a - b) / abs(b) for a, b in zip(ours[name], theirs[name], strict=True)]
        found.append(choose(apart[:STEPS.get(mode)]) if all(x == x for x in apart) else float("nan"))
    return tuple(found)


def agree(ours, theirs, mode):
    return all(found <= allowed for found, allowed in zip(deviations(ours, theirs, mode), ALLOWED[mode]))


def fall(result):
    """Of the loss from the first to the last step, relative."""
    return 1 - result["loss"][-1] / result["loss"][0]
