#!/usr/bin/env python3
"""Sends the log of a run (omnibal-run --log) to Weights & Biases or to MLflow, afterwards or while the run goes on.

    python log_to.py wandb run.jsonl --project vision --name first
    python log_to.py mlflow run.jsonl --project vision --follow --heartbeat run.heartbeat --options checkpoints/omnibal.toml

The names are those of TensorBoard: train/FIELD, train/lr_of/GROUP, evaluation/FIELD, evaluation/SOURCE/FIELD. A step is
sent once, also where a resumed run computes it again, as it gives the same numbers. The destination's own package must be
installed, and takes address and key from where it always does (WANDB_API_KEY, MLFLOW_TRACKING_URI, ...).
"""
import argparse
import json
import os
import re
import signal
import sys
import time

KINDS = ("train", "evaluation")  # of lines; a destination may have a step's first line without its second
ENDS = {"finished", "stopped"}  # phases of --heartbeat after which no line follows


# -------------------------------------------------------------------------------------------------------- the log
class Lines:
    """The complete lines of a file that grows, is replaced (a resumed run drops its last lines) or is not there yet."""

    def __init__(self, path):
        self.path = path
        self.file, self.identity, self.position = None, None, 0

    def new(self):
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return []
        if (status.st_dev, status.st_ino) != self.identity or status.st_size < self.position:
            self.close()
            self.file, self.position = open(self.path, "rb"), 0  # pylint: disable=consider-using-with
            status = os.fstat(self.file.fileno())
            self.identity = (status.st_dev, status.st_ino)
        self.file.seek(self.position)
        data = self.file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.position += len(data)
        return data.decode("utf-8", "replace").splitlines()

    def close(self):
        if self.file:
            self.file.close()


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numbers_of(prefix, fields):
    """Numbers by name; those of parts (groups, stages, sources) below the part's name."""
    found = {}
    for field, value in fields.items():
        if is_number(value):
            found[prefix + field] = value
        elif isinstance(value, dict):
            for part, own in value.items():
                if is_number(own):
                    found[f"{prefix}{field}/{part}"] = own
                elif isinstance(own, dict):  # of `sources`, whose own name says nothing
                    found.update(numbers_of(f"{prefix}{part}/", own))
    return found


def parse(line):
    """Kind, step and numbers of a line, or None."""
    try:
        fields = json.loads(line)
        step = fields["step"]
    except (ValueError, KeyError, TypeError):
        print(f"log_to.py: a line that is no step was left out: {line[:80]}", file=sys.stderr)
        return None
    if "evaluation" in fields:
        return "evaluation", step, numbers_of("evaluation/", fields["evaluation"])
    if "skipped" in fields or "answers" in fields:
        return None
    return "train", step, numbers_of("train/", {name: value for name, value in fields.items() if name != "step"})


# --------------------------------------------------------------------------------------------------- destinations
class WeightsAndBiases:
    def __init__(self, arguments, options):
        import wandb
        again = {"id": arguments.id, "resume": "allow"} if arguments.id else {}
        self.run = wandb.init(project=arguments.project, name=arguments.name, config=options, **again)
        # Of a run that goes on it is the step after its last one.
        self.last = dict.fromkeys(KINDS, self.run.step - 1 if arguments.id else -1)

    def send(self, step, numbers):
        self.run.log(numbers, step=step)

    def close(self):
        self.run.finish()


class Mlflow:
    def __init__(self, arguments, options):
        import mlflow
        self.mlflow = mlflow
        if arguments.project:
            mlflow.set_experiment(arguments.project)
        run = mlflow.start_run(run_id=arguments.id, run_name=arguments.name)
        self.last = dict.fromkeys(KINDS, -1)
        if arguments.id:
            for kind in KINDS:
                history = mlflow.MlflowClient().get_metric_history(run.info.run_id, f"{kind}/loss")
                self.last[kind] = max((metric.step for metric in history), default=-1)
        elif options:
            mlflow.log_params({name: str(value) for name, value in options.items()})

    def send(self, step, numbers):
        self.mlflow.log_metrics({re.sub(r"[^\w\-. /]", "_", name): value for name, value in numbers.items()}, step=step)

    def close(self):
        self.mlflow.end_run()


# -------------------------------------------------------------------------------------------------------- sending
def read_options(path):
    """The options of a file for --config, by table and key."""
    try:
        import tomllib
    except ImportError:
        sys.exit("log_to.py: --options needs Python 3.11 or newer; leave it out")
    with open(path, "rb") as file:
        options = tomllib.load(file)
    return {name if not isinstance(value, dict) else f"{name}.{key}": own
            for name, value in options.items() for key, own in (value if isinstance(value, dict) else {"": value}).items()}


class Heartbeat:
    """A run's file of --heartbeat. What an earlier start of the run has left there is none of its ends."""

    def __init__(self, path):
        self.path, self.began, self.was_running = path, time.time(), False

    def has_ended(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                beat = json.load(file)
            is_end, is_new = beat["phase"] in ENDS, beat["time"] > self.began
        except (OSError, ValueError, KeyError, TypeError):
            return False
        self.was_running = self.was_running or not is_end
        return is_end and (is_new or self.was_running)


def sleep(seconds, asked):
    """Until the time is over or an end is asked for."""
    end = time.monotonic() + seconds
    while not asked and time.monotonic() < end:
        time.sleep(min(seconds, 0.2))


class Sender:
    def __init__(self, lines, destination):
        self.lines, self.destination = lines, destination
        self.last = dict(destination.last)
        self.sent = 0

    def send_new(self):
        for line in self.lines.new():
            found = parse(line)
            if not found or found[1] <= self.last[found[0]]:
                continue
            kind, step, numbers = found
            self.destination.send(step, numbers)
            self.last[kind] = step
            self.sent += 1


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("destination", choices=("wandb", "mlflow"))
    parser.add_argument("log", help="file of omnibal-run --log")
    parser.add_argument("--project", help="project (wandb) or experiment (mlflow)")
    parser.add_argument("--name", help="name of the run there")
    parser.add_argument("--id", help="go on with the run of this id, after the last step that it has")
    parser.add_argument("--options", help="file of options to send with the run, such as omnibal.toml of a folder of checkpoints")
    parser.add_argument("--follow", action="store_true", help="wait for further lines, until interrupted (or see --heartbeat)")
    parser.add_argument("--heartbeat", help="with --follow: file of omnibal-run --heartbeat; ends when the run has ended")
    parser.add_argument("--seconds", type=float, default=5, help="with --follow: time between two looks at the log (5)")
    arguments = parser.parse_args()
    if arguments.heartbeat and not arguments.follow:
        parser.error("--heartbeat goes with --follow")
    if not arguments.follow and not os.path.exists(arguments.log):
        parser.error(f"{arguments.log} does not exist (--follow waits for it)")
    return arguments


def main():
    arguments = read_arguments()
    options = read_options(arguments.options) if arguments.options else None
    # An end that is asked for is an end like another one: what has come until then is sent.
    asked = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(1) if asked else asked.append(number))
    heartbeat = Heartbeat(arguments.heartbeat) if arguments.heartbeat else None
    try:
        destination = {"wandb": WeightsAndBiases, "mlflow": Mlflow}[arguments.destination](arguments, options)
    except ImportError as error:
        sys.exit(f"log_to.py: {error}; install it with pip: pip install {arguments.destination}")
    sender = Sender(Lines(arguments.log), destination)
    try:
        while True:
            ended = not arguments.follow or asked or (heartbeat and heartbeat.has_ended())
            sender.send_new()
            if ended:  # before the last look, so nothing came after it
                break
            sleep(arguments.seconds, asked)
    finally:
        sender.lines.close()
        destination.close()
        print(f"log_to.py: {sender.sent} lines sent")


if __name__ == "__main__":
    main()
