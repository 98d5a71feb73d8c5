#!/usr/bin/env python3
"""The quickstart's own commands on a short run: files it promises, killing and resuming, and (full) its promise.

    python3 quickstart_test.py --bin build/bin short|resume|full
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "examples", "quickstart")
RECIPE = ("--lr 3e-3 --schedule-lr cosine --warmup-steps 100 --min-lr-ratio 0.02 --beta1 0.9 --beta2 0.98 "
          "--weight-decay 0.05 --clip 1.0").split()


def run(*command, **options):
    print("$", *command, flush=True)
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode:
        sys.exit(f"exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def compile_program(tools, folder):
    run(f"{tools}/omnibal-compile", f"{HERE}/model/model.onnx", "--weights", f"{HERE}/model", "--tiles", "10",
        "--tokens", "128", "--stages", "2", "--microbatches", "12", "-o", f"{folder}/program")


def train_command(tools, folder, steps, *more):
    data = sorted(f"{HERE}/data/{f}" for f in os.listdir(f"{HERE}/data") if f.startswith("train-"))
    return [f"{tools}/omnibal-run", f"{folder}/program", "--weights", f"{HERE}/model", "--data", *data, "--preprocess",
            f"{HERE}/model/preprocessor_config.json", "--steps-file", f"{HERE}/data/steps.jsonl", "--steps",
            str(steps), *RECIPE, *more]


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def evaluate(tools, folder, weights):
    out = run(f"{tools}/omnibal-run", f"{folder}/program", "--weights", weights, "--data",
              f"{HERE}/data/heldout-000000.tar", "--preprocess", f"{HERE}/model/preprocessor_config.json", "--evaluate")
    return float(re.search(r"answers entirely right ([\d.]+) %", out).group(1)), out


def short(tools, folder):
    """Twelve steps: the loss falls, and log, trace, picture and saved folder are what the README says."""
    compile_program(tools, folder)
    run(*train_command(tools, folder, 12, "--log", f"{folder}/run.jsonl", "--trace", f"{folder}/trace.json", "--save",
                       f"{folder}/model"))
    log = read_log(f"{folder}/run.jsonl")
    assert [e["step"] for e in log] == list(range(12)), [e["step"] for e in log]
    with open(f"{HERE}/data/steps.jsonl") as file:
        first = json.loads(file.readline())["groups"]
    for field in ("loss", "grad_norm", "lr", "label_tokens", "tokens", "tiles", "step_ms", "tokens_per_s", "bubble",
                  "pipeline_ms", "epilogue_ms"):
        assert all(isinstance(e[field], (int, float)) for e in log), field
    assert log[-1]["loss"] < log[0]["loss"] / 1.3, (log[0]["loss"], log[-1]["loss"])
    assert abs(log[0]["lr"] - 3e-5) < 1e-9 and len(first) == 12

    with open(f"{folder}/trace.json") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    ranks = {e["pid"] for e in events if e.get("ph") == "X"}
    assert len(ranks) == 2, ranks

    run(sys.executable, f"{HERE}/plot_loss.py", f"{folder}/run.jsonl", f"{folder}/loss.svg")
    picture = xml.etree.ElementTree.parse(f"{folder}/loss.svg").getroot()
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 and all(len(l.get("points").split()) == 12 for l in lines)

    for name in ("model.safetensors", "config.json", "preprocessor_config.json", "vocab.json"):
        assert os.path.isfile(f"{folder}/model/{name}"), name
    before, _ = evaluate(tools, folder, f"{HERE}/model")
    _, text = evaluate(tools, folder, f"{folder}/model")
    assert before < 5 and "samples 400" in text, text


def resume(tools, folder):
    """Killed in the middle and resumed: the same weights and losses as in one go, bit by bit."""
    compile_program(tools, folder)
    run(*train_command(tools, folder, 10, "--log", f"{folder}/whole.jsonl", "--save", f"{folder}/whole"))
    command = train_command(tools, folder, 10, "--log", f"{folder}/parts.jsonl", "--save", f"{folder}/parts",
                            "--checkpoint", f"{folder}/checkpoints", "--checkpoint-every", "3")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    pointer, deadline = f"{folder}/checkpoints/latest", time.time() + 300
    while not os.path.exists(pointer) and process.poll() is None and time.time() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate()
    assert os.path.exists(pointer), err.decode()
    # Killed so soon after the first checkpoint that the run was not over.
    assert process.returncode == -signal.SIGKILL and not os.path.exists(f"{folder}/parts/model.safetensors")
    run(*command, "--resume", f"{folder}/checkpoints")
    whole, parts = read_log(f"{folder}/whole.jsonl"), read_log(f"{folder}/parts.jsonl")
    for field in ("step", "loss", "grad_norm", "lr"):
        assert [e[field] for e in whole] == [e[field] for e in parts], field
    with open(f"{folder}/whole/model.safetensors", "rb") as a, open(f"{folder}/parts/model.safetensors", "rb") as b:
        assert a.read() == b.read(), "the weights differ"


def full(tools, folder):
    """The whole quickstart: at least 85 % of the held-out answers entirely right, within 3 minutes of training."""
    compile_program(tools, folder)
    began = time.time()
    run(*train_command(tools, folder, 1000, "--log", f"{folder}/run.jsonl", "--save", f"{folder}/model"))
    seconds = time.time() - began
    right, text = evaluate(tools, folder, f"{folder}/model")
    print(f"{seconds:.0f} s of training\n{text}")
    assert right >= 85, text
    assert seconds <= 180, f"{seconds:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("test", choices=["short", "resume", "full"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"short": short, "resume": resume, "full": full}[arguments.test](os.path.abspath(arguments.bin), folder)
    print("all as it should be")


if __name__ == "__main__":
    main()
