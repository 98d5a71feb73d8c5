#!/usr/bin/env python3
"""Who may include whom (docs/architecture.md): every #include against one table, and no circle of folders."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Folder -> folders of ours that it may include besides itself. The longest matching folder decides.
MAY = {
    # The runtime, from the ground up.
    "runtime/support": [],
    "runtime/comm": ["runtime/support"],
    "runtime/device": ["runtime/support", "runtime/comm"],
    "runtime/device/calls": ["runtime/support", "runtime/device"],
    "runtime/planner": ["runtime/support"],
    "runtime/planner/lengths": ["runtime/support", "runtime/planner", "runtime/batching"],
    "runtime/program": ["runtime/support", "runtime/device"],
    "runtime/schedule": ["runtime/support", "runtime/planner", "runtime/program"],
    "runtime/batching": ["runtime/support"],
    "runtime/data": ["runtime/support", "runtime/device", "runtime/program", "runtime/batching"],
    "runtime/checkpoint": ["runtime/support", "runtime/comm", "runtime/device", "runtime/program/Adapters"],
    "runtime/backends/host": ["runtime/support", "runtime/comm", "runtime/device"],
    "runtime/backends/cuda": ["runtime/support", "runtime/comm", "runtime/device"],
    "runtime/executor": ["runtime/support", "runtime/comm", "runtime/device", "runtime/planner/step", "runtime/program", "runtime/schedule", "runtime/data",
                         "runtime/backends/host/HostBackend"],
    "runtime/training": ["runtime/support", "runtime/comm", "runtime/device", "runtime/program", "runtime/schedule", "runtime/batching",
                         "runtime/data", "runtime/checkpoint", "runtime/executor"],
    # The compiler. A plan's attributes stand below the ops that carry them.
    "dialects/pipeline": [],
    "dialects/omnibal/ir": ["dialects/pipeline", "runtime/support/Shares", "runtime/support/Types", "runtime/support/QuantizedMatrix", "runtime/support/RandomBits"],
    "dialects/omnibal/rules": ["dialects/omnibal/ir", "dialects/pipeline", "runtime/support/Shares", "runtime/support/RandomBits"],
    "dialects/omnibal/analysis": ["dialects/omnibal/ir", "dialects/omnibal/rules"],
    "dialects/omnibal/interpreter": ["dialects/omnibal/ir", "dialects/omnibal/rules", "dialects/pipeline", "runtime/support/Shares", "runtime/support/Types"],
    "importers/onnx": ["dialects", "runtime/support"],
    "passes/common": ["dialects", "runtime/planner/model", "runtime/planner/step", "runtime/program", "runtime/schedule"],
    "passes/specialize": ["dialects"],
    "passes/raise": ["dialects", "passes/specialize"],
    "passes/layers": ["dialects", "passes/common/AdapterAttributes", "passes/raise/match"],
    "passes/shard": ["dialects", "runtime/support"],
    "passes/differentiate": ["dialects", "passes/common", "passes/shard"],
    "passes/lower": ["dialects", "passes/common", "runtime/program"],
    "passes/cost": ["dialects", "passes/common", "passes/differentiate", "passes/lower", "passes/shard/LayerLayouts", "runtime/batching", "runtime/planner/model", "runtime/planner/step",
                    "runtime/planner/json", "runtime/program", "runtime/support"],
    "passes/shard/search": ["dialects", "passes/common/OptimizerAttribute", "passes/cost", "passes/differentiate", "passes/shard", "runtime/planner/json", "runtime/planner/model", "runtime/support"],
    "passes/schedule": ["dialects", "passes/common", "runtime/planner/model", "runtime/program", "runtime/schedule"],
    "passes/layout": ["dialects", "passes/common", "passes/lower", "passes/schedule", "passes/shard/LayerLayouts", "runtime/planner/model", "runtime/planner/step",
                      "runtime/program", "runtime/schedule"],
    "passes/plan": ["dialects", "passes/common", "passes/cost", "passes/layout", "passes/shard/Passes", "passes/shard/search/Passes", "runtime/batching", "runtime/planner", "runtime/program",
                    "runtime/schedule", "runtime/support"],
    "passes/export": ["dialects", "passes/common", "passes/layout", "passes/lower", "passes/schedule", "passes/shard/LayerLayouts", "runtime/planner/step",
                      "runtime/program", "runtime/schedule"],
    "passes/driver": ["dialects", "passes"],
    # On top: options and printing.
    "tools": ["tools", "passes", "dialects", "importers", "runtime"],
    "tools/config": ["runtime/support"],
    "tools/report": ["runtime/planner", "runtime/support"],
    "test": ["test", "tools", "passes", "dialects", "importers", "runtime"],
}
# Headers of others that only some folders may see. The runtime, its planner too, knows neither LLVM nor MLIR.
FOREIGN = [
    (re.compile(r"^(mlir|llvm)/"), ["dialects", "importers", "passes", "tools/omnibal-opt", "tools/omnibal-compile", "test"]),
    (re.compile(r"^google/protobuf|\.pb\.h$"), ["importers", "test/unit/importers"]),
    (re.compile(r"^(cuda|cublas|cudnn|nccl|nvrtc)"), ["runtime/backends/cuda", "test/support/fake_cuda"]),
    (re.compile(r"^mpi\.h$"), ["runtime/comm/mpi", "test"]),
    (re.compile(r"^toml"), ["tools/config"]),
    (re.compile(r"^archive|^spng\.h|^turbojpeg\.h|^webp/"), ["runtime/data", "test"]),
]
OURS = re.compile(r"^(runtime|dialects|importers|passes|tools|test|docs|examples)/")


def within(path, folder):
    return path == folder or path.startswith(folder + "/") or path.startswith(folder + ".")


def rule_of(path):
    folders = [f for f in MAY if within(path, f)]
    return max(folders, key=len) if folders else None


def sources(root):
    for top in ("runtime", "dialects", "importers", "passes", "tools", "test"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith((".h", ".cpp", ".td", ".inc")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def problems_of(path, text):
    """What is wrong with one file's includes."""
    rule = rule_of(path)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#?\s*include\s+(["<])([^">]+)[">]', line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{path}:{number}: "
        if OURS.match(name):
            if rule is None:
                continue
            allowed = MAY[rule] + [rule]
            if not any(within(name, a) for a in allowed):
                found.append(where + f"{rule} may not include {name}")
        elif quote == '"' and not name.endswith(".inc") and not name.startswith(("mlir/", "llvm/")):
            found.append(where + f'"{name}" is not relative to the root of the sources')
        for pattern, folders in FOREIGN:
            if pattern.search(name) and not any(within(path, f) for f in folders):
                found.append(where + f"{name} may be included only below {', '.join(folders)}")
    return found


def folder_graph(files):
    """Folder -> {folder that it includes from: one include that does}, of (path, text) of the product."""
    graph = {}
    for path, text in files:
        folder = os.path.dirname(path)
        for name in re.findall(r'^\s*#?\s*include\s+"([^"]+)"', text, re.M):
            if OURS.match(name) and os.path.dirname(name) != folder:
                graph.setdefault(folder, {}).setdefault(os.path.dirname(name), f"{path} includes {name}")
    return graph


def circle_of(graph):
    """Folders that include each other in a circle, or nothing."""
    done = set()

    def visit(folder, way):
        if folder in way:
            return way[way.index(folder):]
        if folder in done:
            return None
        for other in sorted(graph.get(folder, {})):
            circle = visit(other, way + [folder])
            if circle:
                return circle
        done.add(folder)
        return None
    for folder in sorted(graph):
        circle = visit(folder, [])
        if circle:
            return circle
    return None


def circles(files):
    graph = folder_graph(files)
    circle = circle_of(graph)
    if not circle:
        return []
    return ["a circle of folders:"] + ["  " + graph[a][b] for a, b in zip(circle, circle[1:] + circle[:1])]


def self_test():
    """The checker finds what it is for."""
    bad = [("runtime/support/A.cpp", '#include "runtime/data/Dataset.h"'),
           ("runtime/executor/A.cpp", "#include <mlir/IR/Builders.h>"),
           ("runtime/planner/model/A.h", '#include "mlir/IR/Builders.h"'),
           ("runtime/planner/model/A.h", '#include "llvm/ADT/SmallVector.h"'),
           ("runtime/planner/model/A.h", '#include "passes/cost/Device.h"'),
           ("runtime/planner/model/A.h", '#include "dialects/omnibal/ir/OmnibalOps.h"'),
           ("dialects/omnibal/ir/A.cpp", '#include "passes/driver/Pipelines.h"'),
           ("runtime/executor/A.cpp", '#include "runtime/backends/host/kernels/Gemm.h"'),
           ("passes/raise/A.cpp", '#include "onnx.pb.h"'),
           ("runtime/data/A.cpp", '#include "Dataset.h"')]
    for path, line in bad:
        if not problems_of(path, line):
            sys.exit(f"layering.py: does not see that {path} breaks a rule with {line}")
    good = [("runtime/executor/A.cpp", '#include "runtime/data/Dataset.h"'),
            ("runtime/planner/model/A.cpp", '#include "runtime/support/Status.h"'),
            ("dialects/omnibal/ir/A.cpp", '#include "dialects/omnibal/ir/A.h.inc"')]
    for path, line in good:
        if problems_of(path, line):
            sys.exit(f"layering.py: wrongly refuses {line} in {path}")
    way = [("a/A.h", '#include "runtime/b/B.h"'), ("runtime/b/B.h", '#include "runtime/c/C.h"')]
    if circles(way) or not circles(way + [("runtime/c/C.cpp", '#include "runtime/b/B.h"')]):
        sys.exit("layering.py: does not tell a circle of folders from a way")


def stale_rules():
    """Folders of the tables that are not there: such a rule proves nothing."""
    named = set(MAY) | {folder for _, folders in FOREIGN for folder in folders} | {f for may in MAY.values() for f in may}
    return [f"layering.py: its tables name {name}, which is not there" for name in sorted(named)
            if not os.path.exists(os.path.join(ROOT, name)) and not os.path.exists(os.path.join(ROOT, name + ".h"))]


def main():
    self_test()
    files = []
    for path in sources(ROOT):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            files.append((path, file.read()))
    found = stale_rules()
    found += [problem for path, text in files for problem in problems_of(path, text)]
    found += circles([(path, text) for path, text in files if not path.startswith("test/")])
    count = len(files)
    print("\n".join(found))
    if found:
        sys.exit(f"layering: {len(found)} includes break the rules of docs/architecture.md")
    print(f"layering: {count} files are in order")


if __name__ == "__main__":
    main()
