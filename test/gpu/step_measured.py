#!/usr/bin/env python3
"""A traced step beside what it should take: step_measured.py PROGRAM TRACE.json [--rank R] [--samples S] [--labels L]

TRACE is that of omnibal-run --trace for PROGRAM. For one rank: milliseconds by kind of kernel, what step_account.py says that they take at least, and the
ratio of the two; then every call of every function, those first that lose most. Traced kernels run one by one, outside of graphs.
"""
import argparse
import collections
import json
import sys

import step_account

COMPUTE, KERNELS = 0, 4  # lanes
KINDS = {"forward": "F", "backward": "B", "input_grad": "I", "weight_grad": "W"}


class Measured:
    """Calls of a traced step, each with its time and its least time; they are told apart by their order."""

    def __init__(self, program, trace, rank, samples, labels, device):
        with open(trace) as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        mine = [event for event in events if event.get("ph") == "X" and event["pid"] == rank]
        spans, kernels = (sorted((event for event in mine if event["tid"] == lane), key=lambda event: event["ts"]) for lane in (COMPUTE, KERNELS))
        self.update = sum(span["dur"] for span in spans if span["name"] == "update") / 1e3
        self.spans = [span for span in spans if span["name"] in KINDS.values()]
        self.program, self.samples, self.labels, self.device, self.known = program, samples, labels, device, {}
        self.rows = []  # function, call, least seconds, measured seconds
        left = iter(kernels)
        stage = self.account(1, 1).stages[rank % len(self.account(1, 1).stages)]
        train = stage["modes"]["train"]
        actions = [action for action in train["actions"] if action[0] in KINDS]
        if [KINDS[kind] for kind, _, _ in actions] != [span["name"] for span in self.spans]:
            sys.exit(f"step_measured.py: the trace does not have one step of rank {rank} of this program")
        for (kind, _, index), span in zip(actions, self.spans):
            account = self.account(span["args"]["tiles"], span["args"]["tokens"])
            for layer in train["chunks"][index][kind]:
                for number, call in enumerate(account.calls[layer["function"]]):
                    event = next(left, None)
                    if event is None or event["name"] != call.kernel:
                        sys.exit("step_measured.py: the trace's kernels are not those of this program")
                    self.rows.append(((layer["function"], number), call, device.seconds(call), event["dur"] * 1e-6))
        self.functions = account.functions

    def account(self, tiles, tokens):
        key = tiles, tokens
        if key not in self.known:
            load = step_account.Load(tiles, tokens, max(1, self.samples), tokens // 4 if self.labels is None else self.labels)
            self.known[key] = step_account.Account(self.program, load, self.device)
        return self.known[key]

    def by(self, key):
        sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
        for row in self.rows:
            found = sums[key(row)]
            found[0] += 1
            found[1] += row[2]
            found[2] += row[3]
        return sums

    def print(self, most):
        kinds = self.by(lambda row: row[1].kind)
        print(f"{'':14s} {'calls':>6s} {'least ms':>9s} {'ms':>9s} {'ratio':>6s}")
        for kind in sorted(kinds, key=step_account.KINDS.index):
            print(line(kind, *kinds[kind]))
        total = [sum(found[i] for found in kinds.values()) for i in range(3)]
        print(line("all", *total))
        begin, end = self.spans[0]["ts"], max(span["ts"] + span["dur"] for span in self.spans)
        print(f"from the first to the last {(end - begin) / 1e3:.2f} ms; update {self.update:.2f} ms")
        calls = self.by(lambda row: row[0])
        example = {row[0]: row[1] for row in self.rows}
        for key, (count, least, measured) in sorted(calls.items(), key=lambda item: item[1][1] - item[1][2])[:most]:
            call = example[key]
            print(f"{1e3 * (measured - least):8.2f} ms over {1e3 * least:8.2f} ms: {count:4d} x {1e6 * measured / count:9.1f} us  "
                  f"{self.functions[key[0]]['name']:22s} {call.kernel:20s} {call.label}")


def line(name, count, least, measured):
    return f"{name:14s} {count:6d} {1e3 * least:9.2f} {1e3 * measured:9.2f} {measured / least if least > 0 else 0:6.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--samples", type=int, default=8, help="of every micro-batch, equally long")
    parser.add_argument("--labels", type=int, help="tokens with a target of every micro-batch; default: a quarter")
    parser.add_argument("--most", type=int, default=30, help="calls that are listed")
    step_account.add_device_options(parser)
    args = parser.parse_args()
    Measured(args.program, args.trace, args.rank, args.samples, args.labels, step_account.device_of(args)).print(args.most)


if __name__ == "__main__":
    main()
