#!/usr/bin/env python3
"""Trains an exported model with the groups of reference.json and compares with PyTorch's numbers.

Losses and gradient norms of every step, and projections of every parameter's gradient of the first step:
judgement.py says how near they must be. Prints the largest share of the tolerance that was used.

    reference_losses.py --bin BUILD/bin --model test/data/tiny-internvl --graph model.onnx \
        --variant train_all --stages 2 --data-parallel 1 --remat none --launch threads --work DIR

--program DIR takes a program that was compiled before (--stages and the like then say what it is).
"""
import argparse, json, os, random, struct, subprocess, sys, tarfile

from judgement import BFloat16, Float32, Judgement

FREEZE = {"train_all": [], "freeze_vision": ["vision"], "freeze_llm": ["vision", "language"]}


def sample_sizes(tar_path):
    """key -> (tiles, tokens) of every sample of a shard; units where pictures have their own sizes (PNG, after KEY.json)."""
    facts = os.path.join(os.path.dirname(tar_path), "fixture.json")
    unit = None
    if os.path.exists(facts):
        with open(facts) as file:
            unit = json.load(file).get("size_multiple")
    sizes = {}
    with tarfile.open(tar_path) as tar:
        for member in tar:
            if member.name.endswith(".json"):
                sample = json.load(tar.extractfile(member))
                sizes[member.name[:-5]] = (0 if unit else sample["images"], len(sample["input_ids"]))
            elif unit:
                key = member.name.split(".")[0]
                width, height = struct.unpack(">II", tar.extractfile(member).read(24)[16:])
                sizes[key] = (sizes[key][0] + width // unit * (height // unit), sizes[key][1])
    return sizes


def caps_of(steps, tar_path):
    """The most tiles and tokens of a group of reference.json's steps."""
    sizes = sample_sizes(tar_path)
    groups = [group for step in steps for group in step["groups"]]
    return tuple(max(sum(sizes[key][i] for key in group) for group in groups) for i in (0, 1))


def write_steps(path, steps):
    """A steps file with the groups of reference.json's steps."""
    with open(path, "w") as file:
        file.writelines(json.dumps({"groups": step["groups"]}) + "\n" for step in steps)


def read_safetensors(path):
    """name -> list of float32 values, read without dependencies."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        base = 8 + length
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            assert entry["dtype"] == "F32", (name, entry)
            begin, end = entry["data_offsets"]
            file.seek(base + begin)
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))
    return tensors


def run(command, **kwargs):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}")
    return result.stdout


def random_plan(stages, chunks, microbatches, layers, seed):
    """A plan as nobody would write it: chunks go to the ranks and back again in turn, and every rank runs
    whatever is ready in random order, half of the backward passes in two halves."""
    chooser = random.Random(seed)
    ranks = [c % stages if c // stages % 2 == 0 else stages - 1 - c % stages for c in range(chunks)]
    lists, done = [[] for _ in range(stages)], {}

    def ready(c, m):
        parts = done.get((c, m), "")
        if parts == "":
            return "F" if c == 0 or done.get((c - 1, m)) else ""
        if parts == "F" and (c + 1 == chunks or len(done.get((c + 1, m), "")) > 1):
            return "I" if chooser.random() < 0.5 else "B"
        return "W" if parts == "FI" else ""

    while True:
        choices = [(kind, m, c) for c in range(chunks) for m in range(microbatches) if (kind := ready(c, m))]
        if not choices:
            break
        kind, m, c = chooser.choice(choices)
        done[c, m] = done.get((c, m), "") + kind
        lists[ranks[c]].append([kind, m, c])
    return {"schema": "omnibal.plan/1", "cuts": [layers * c // chunks for c in range(chunks + 1)],
            "chunk_rank": ranks, "schedule": "auto", "actions": lists}


def compile_program(args, tiles, tokens, groups):
    program = os.path.join(args.work, "program")
    command = [os.path.join(args.bin, "omnibal-compile"), os.path.join(args.model, args.graph),
               "--tiles", str(tiles), "--tokens", str(tokens), "--stages", str(args.stages),
               "--data-parallel", str(args.data_parallel), "--microbatches", str(groups // args.data_parallel),
               "--remat", args.remat, "-o", program]
    if args.schedule.startswith("random:"):
        problem, plan = os.path.join(args.work, "problem.json"), os.path.join(args.work, "plan.json")
        run(command[:-2] + ["--partition", "layers", "--dry-run", "--emit-problem", problem])
        with open(problem) as file:
            layers = len(json.load(file)["layers"])
        chunks = int(args.schedule.split(":")[1]) * args.stages
        with open(plan, "w") as file:
            json.dump(random_plan(args.stages, chunks, groups // args.data_parallel, layers, seed=chunks), file)
        command += ["--plan", plan]
    else:
        command += ["--schedule", args.schedule, "--partition", args.partition]
    from inline_weights import weights_flags  # reads the graph by onnx, which a run of a --program does without
    command += weights_flags(args.model, args.graph)
    if FREEZE[args.variant]:
        command += ["--freeze", ",".join(FREEZE[args.variant])]
    run(command + args.compile_flags)
    return program


def train(args, program, optimizer, steps_file):
    log = os.path.join(args.work, "run.jsonl")
    gradients = os.path.join(args.work, "gradients.safetensors")
    command = [os.path.join(args.bin, "omnibal-run"), program,
               "--weights", os.path.join(args.model, "model.safetensors"),
               "--data", os.path.join(args.model, "data-000000.tar"),
               "--preprocess", os.path.join(args.model, "preprocessor_config.json"),
               "--steps-file", steps_file, "--lr", str(optimizer["lr"]),
               "--beta1", str(optimizer["betas"][0]), "--beta2", str(optimizer["betas"][1]),
               "--eps", str(optimizer["eps"]), "--weight-decay", str(optimizer["weight_decay"]),
               "--clip", str(optimizer["clip_grad_norm"]), "--threads", str(args.threads),
               "--log", log, "--save-gradients", gradients]
    if args.launch == "mpirun":
        ranks = args.stages * args.data_parallel
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] + command
    run(command)
    with open(log) as file:
        return [json.loads(line) for line in file], read_safetensors(gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--graph", default="model.onnx")
    parser.add_argument("--variant", default="train_all", choices=FREEZE)
    parser.add_argument("--stages", type=int, default=1)
    parser.add_argument("--data-parallel", type=int, default=1)
    parser.add_argument("--remat", default="none")
    parser.add_argument("--schedule", default="1f1b", help="as of omnibal-compile, or random:CHUNKS_PER_RANK")
    parser.add_argument("--partition", default="layers")
    parser.add_argument("--launch", default="threads", choices=["threads", "mpirun"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--program", help="compiled before")
    parser.add_argument("--steps", type=int, help="only the first ones")
    parser.add_argument("--bfloat16", action="store_true", help="the program computes in bfloat16")
    parser.add_argument("--compile-flags", type=str.split, default=[], help="further flags of omnibal-compile, in one word")
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)

    judgement = Judgement(args.model, args.variant, args.steps, BFloat16 if args.bfloat16 else Float32)
    steps_file = os.path.join(args.work, "steps.jsonl")
    write_steps(steps_file, judgement.steps)
    tiles, tokens = caps_of(judgement.steps, os.path.join(args.model, "data-000000.tar"))
    groups = len(judgement.steps[0]["groups"])
    log, gradients = train(args, args.program or compile_program(args, tiles, tokens, groups), judgement.optimizer, steps_file)
    judgement.log(log)
    judgement.gradients(gradients)
    print(judgement.summary())
    for failure in judgement.failures[:20]:
        print("FAIL", failure)
    sys.exit(1 if judgement.failures else 0)


if __name__ == "__main__":
    main()
