#!/usr/bin/env python3
"""Who may include whom (docs/architecture.md): reads every #include and checks it against one table."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Folder -> folders of ours that it may include besides itself. The longest matching folder decides.
MAY = {
    "runtime/core": [],
    "runtime/program": ["runtime/core"],
    "runtime/batching": ["runtime/core"],
    "runtime/data": ["runtime/core"],
    "runtime/executor": ["runtime/core", "runtime/program", "runtime/batching", "runtime/data"],
    "runtime/checkpoint": ["runtime/core", "runtime/program", "runtime/batching", "runtime/data"],
    "runtime/backends/host": ["runtime/core"],
    "runtime/backends/cuda": ["runtime/core"],
    "dialects": [],
    "importers": ["dialects", "runtime/core/FolderFiles.h", "runtime/core/Safetensors.h", "runtime/core/Status.h", "runtime/core/Types.h"],
    "passes/cost": [],
    "passes/planner": ["runtime/core"],
    "passes": ["passes", "dialects"],
    "passes/lower": ["passes", "dialects", "runtime/program", "runtime/core"],
    "passes/export": ["passes", "dialects", "runtime/program", "runtime/core"],
    "tools": ["tools", "passes", "dialects", "importers", "runtime"],
    "test": ["test", "tools", "passes", "dialects", "importers", "runtime"],
}
# The planner is plain C++: neither the compiler's headers nor LLVM's.
PLAIN = ["passes/planner"]
# Headers of others that only some folders may see.
FOREIGN = [
    (re.compile(r"^(mlir|llvm)/"), ["dialects", "importers", "passes", "tools/omnibal-opt", "tools/omnibal-compile", "test"]),
    (re.compile(r"^mlir/"), ["dialects", "importers", "passes/raise", "passes/specialize", "passes/train",
                             "passes/partition", "passes/remat", "passes/schedule", "passes/lower", "passes/export",
                             "passes/Pipelines", "passes/interpret", "passes/layers", "passes/common", "passes/plan",
                             "tools/omnibal-opt", "tools/omnibal-compile", "test"]),
    (re.compile(r"^google/protobuf|\.pb\.h$"), ["importers", "test/unit/importer"]),
    (re.compile(r"^(cuda|cublas|cudnn|nccl|nvrtc)"), ["runtime/backends/cuda", "test/support/fake_cuda"]),
    (re.compile(r"^mpi\.h$"), ["runtime/backends/host", "test"]),
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
            # passes/<phase> may not reach into cost and planner's rule by being a prefix of it
            if not any(within(name, a) for a in allowed):
                found.append(where + f"{rule} may not include {name}")
        elif quote == '"' and not name.endswith(".inc") and not name.startswith(("mlir/", "llvm/")):
            found.append(where + f'"{name}" is not relative to the root of the sources')
        for pattern, folders in FOREIGN:
            if pattern.search(name) and not any(within(path, f) for f in folders):
                found.append(where + f"{name} may be included only below {', '.join(folders)}")
        if re.match(r"(mlir|llvm)/", name) and any(within(path, f) for f in PLAIN):
            found.append(where + f"{rule} may not include {name}")
    return found


def self_test():
    """The checker finds what it is for."""
    bad = [("runtime/core/A.cpp", '#include "runtime/data/Dataset.h"'),
           ("runtime/executor/A.cpp", "#include <mlir/IR/Builders.h>"),
           ("passes/planner/A.h", '#include "mlir/IR/Builders.h"'),
           ("passes/planner/A.h", '#include "llvm/ADT/SmallVector.h"'),
           ("passes/planner/A.h", '#include "passes/cost/Device.h"'),
           ("passes/planner/A.h", '#include "dialects/omnibal/OmnibalOps.h"'),
           ("dialects/omnibal/A.cpp", '#include "passes/Pipelines.h"'),
           ("runtime/executor/A.cpp", '#include "runtime/backends/host/Gemm.h"'),
           ("passes/raise/A.cpp", '#include "onnx.pb.h"'),
           ("runtime/data/A.cpp", '#include "Dataset.h"')]
    for path, line in bad:
        if not problems_of(path, line):
            sys.exit(f"layering.py: does not see that {path} breaks a rule with {line}")
    good = [("runtime/executor/A.cpp", '#include "runtime/data/Dataset.h"'),
            ("passes/planner/A.cpp", '#include "runtime/core/Status.h"'),
            ("dialects/omnibal/A.cpp", '#include "dialects/omnibal/A.h.inc"')]
    for path, line in good:
        if problems_of(path, line):
            sys.exit(f"layering.py: wrongly refuses {line} in {path}")


def main():
    self_test()
    found, count = [], 0
    for path in sources(ROOT):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            found += problems_of(path, file.read())
        count += 1
    print("\n".join(found))
    if found:
        sys.exit(f"layering: {len(found)} includes break the rules of docs/architecture.md")
    print(f"layering: {count} files are in order")


if __name__ == "__main__":
    main()
