#!/usr/bin/env python3
"""Many ranks as processes of one machine: how long they take to start, and what a step's messages and epilogue cost
against their number.

    many_ranks.py BUILD/bin MODEL_FOLDER [--ranks 16,64,256] [--stages 4] [--steps 4] [--start-seconds 20]

The model should be tiny (test/data/tiny-internvl): all ranks share the machine's cores, so times of steps mean little,
but numbers of messages and bytes are those of a cluster. Every rank is started as torchrun would, and talks over TCP."""
import argparse
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("model", help="folder with model.onnx, model.safetensors, preprocessor_config.json and a shard")
    parser.add_argument("--ranks", default="16,64,256")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--start-seconds", type=float, default=20, help="the most from the first process to the first step's end")
    return parser.parse_args()


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def compile_program(a, replicas, program):
    subprocess.run([os.path.join(a.bin, "omnibal-compile"), os.path.join(a.model, "model.onnx"), "--tiles", "16", "--tokens", "512",
                    "--stages", str(a.stages), "--data-parallel", str(replicas), "--microbatches", "2", "--remat", "none",
                    "-o", program], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_steps(a, shard, replicas, path):
    """One sample a group as long as there are samples; the other groups are empty."""
    with tarfile.open(shard) as tar:
        keys = [member.name[:-len(".json")] for member in tar if member.name.endswith(".json")]
    groups = [[key] for key in keys[:2 * replicas]]
    groups += [[]] * (2 * replicas - len(groups))
    with open(path, "w") as file:
        for _ in range(a.steps):
            file.write(json.dumps({"groups": groups}) + "\n")


def run(a, ranks, work):
    """(seconds to the end of the first step, lines of the log)"""
    replicas = ranks // a.stages
    program, steps, log = (os.path.join(work, name) for name in ("program", "steps.jsonl", "run.jsonl"))
    shard = os.path.join(a.model, "data-000000.tar")
    compile_program(a, replicas, program)
    write_steps(a, shard, replicas, steps)
    command = [os.path.join(a.bin, "omnibal-run"), program, "--weights", a.model, "--data", shard, "--preprocess",
               os.path.join(a.model, "preprocessor_config.json"), "--steps-file", steps, "--log", log, "--threads", "1"]
    launched = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port())}
    began, first, processes = time.monotonic(), None, []
    for r in range(ranks):
        with open(os.path.join(work, f"rank{r}"), "w") as output:
            environment = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), **launched)
            processes.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
    while any(process.poll() is None for process in processes):
        if first is None and os.path.exists(log) and os.path.getsize(log) > 0:
            first = time.monotonic() - began
        time.sleep(0.02)
    if first is None:  # all steps between two looks: it ended before now
        first = time.monotonic() - began
    failed = [r for r, process in enumerate(processes) if process.returncode != 0]
    if failed:
        with open(os.path.join(work, f"rank{failed[0]}")) as output:
            sys.exit(f"{len(failed)} of {ranks} ranks failed, the first says:\n{output.read()[-2000:]}")
    with open(log) as file:
        return first, [json.loads(line) for line in file]


def main():
    a = arguments()
    print("| ranks | stages x replicas | to the first step's end | messages of a rank and step | bytes | pipeline | epilogue |")
    print("|---|---|---|---|---|---|---|")
    late = False
    for ranks in map(int, a.ranks.split(",")):
        with tempfile.TemporaryDirectory() as work:
            first, lines = run(a, ranks, work)
        if len(lines) != a.steps:
            sys.exit(f"{len(lines)} lines in the log of {a.steps} steps")
        last = lines[-1]
        median = {name: sorted(line[name] for line in lines[1:])[(len(lines) - 1) // 2] for name in ("pipeline_ms", "epilogue_ms")}
        print(f"| {ranks} | {a.stages} x {ranks // a.stages} | {first:.1f} s | {last['messages']:.1f} | {last['message_bytes']:.0f} "
              f"| {median['pipeline_ms']:.0f} ms | {median['epilogue_ms']:.0f} ms |", flush=True)
        late |= first > a.start_seconds
    if late:
        sys.exit(f"more than {a.start_seconds} s to the end of the first step")


if __name__ == "__main__":
    main()
