"""The model of step_vs_pytorch, programs of it, and what their runs say of their steps."""
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def add_options(parser, goal):
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--model", default="55m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--goal", type=float, default=goal, help="0: none")


def export(args):
    """The groups of samples of the model's steps, one a micro-batch; it needs PyTorch the first time."""
    if not os.path.exists(os.path.join(args.work, "steps.jsonl")):
        subprocess.run([sys.executable, os.path.join(HERE, os.pardir, "step_vs_pytorch", "make_model.py"), args.work, args.model], check=True)
    with open(os.path.join(args.work, "steps.jsonl")) as file:
        return [group for line in file for group in json.loads(line)["groups"]]


def write_steps(args, groups, replicas):
    with open(os.path.join(args.work, "steps-of-replicas.jsonl"), "w") as file:
        for begin in range(0, len(groups) - replicas + 1, replicas):
            file.write(json.dumps({"groups": groups[begin:begin + replicas]}) + "\n")


def compile_program(args, name, *flags):
    subprocess.run([os.path.join(args.bin, "omnibal-compile"), os.path.join(args.work, "model", "model.onnx"), "--tiles", "4", "--tokens", "512",
                    "--microbatches", "1", "--cpu", "native", *map(str, flags), "-o", os.path.join(args.work, name)],
                   check=True, stdout=subprocess.DEVNULL)


def run(args, name, threads):
    """The lines of the log of a run but its first two, which warm up."""
    log = os.path.join(args.work, "run.log")
    subprocess.run([os.path.join(args.bin, "omnibal-run"), os.path.join(args.work, name), "--weights",
                    os.path.join(args.work, "model", "model.safetensors"), "--data", os.path.join(args.work, "data-000000.tar"),
                    "--preprocess", os.path.join(args.work, "preprocessor_config.json"), "--steps-file",
                    os.path.join(args.work, "steps-of-replicas.jsonl"), "--steps", str(args.steps + 2), "--threads", str(threads), "--log", log],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as file:
        return [json.loads(line) for line in file][2:]


def persistent(args, name):
    """Bytes that last of each rank of a replica, and the elements that train, of all of them."""
    with open(os.path.join(args.work, name, "stages.json")) as file:
        stages = json.load(file)
    elements = 0
    for parameter in (each for stage in stages for each in stage["parameters"] if each["trainable"]):
        count = 1
        for size in parameter["shape"]:
            count *= size
        elements += count
    return [stage["persistent_bytes"] for stage in stages], elements


def least_and_median(values):
    return f"{min(values):.1f}, {statistics.median(values):.1f}"


def judge(args, ours, theirs):
    """Prints the ratios of the steps' times; ends with an error where that of the minima is above the goal."""
    ratio = min(ours) / min(theirs)
    print(f"ratio of the minima {ratio:.3f}, of the medians {statistics.median(ours) / statistics.median(theirs):.3f}")
    if args.goal and ratio > args.goal:
        sys.exit(f"above the goal of {args.goal}")
