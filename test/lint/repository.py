#!/usr/bin/env python3
"""House rules that a machine can check on every tracked file: no machine's paths, no unfinished work, header guards
that spell the path, files of bearable length."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = (".h", ".cpp", ".td", ".py", ".sh", ".md", ".txt", ".cmake", ".mlir", ".proto", ".json", ".toml")
SOURCE = (".h", ".cpp", ".td")
LONGEST = 600
PATHS = re.compile(r"(?<![\w.$}\-])/(home|root|work|tmp|Users|workspace|mnt)/\w+")
# Where packages come from is the business of the machine's own settings.
HOSTS = re.compile(r"\b(apt|archive|deb|download|files|ftp|mirrors?|packages|registry|security)\.([a-z0-9-]+\.)+"
                   r"(com|io|net|org)\b|\bpy" r"pi\.org\b", re.I)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
SKIPPED = re.compile(r"GTEST_SK" r"IP|DISA" r"BLED_|unittest\.sk" r"ip")


# Of other people's sources.
FOREIGN_FILES = {"nccl.h"}
NAMED_FILE = re.compile(r"(?<![\w/.*-])((?:[\w-]+/)*[\w-]+\.(?:cpp|h|td|cu|cuh|md|py|sh))\b")
TOPS = ("cmake/", "dialects/", "docs/", "examples/", "importers/", "passes/", "runtime/", "test/", "tools/")
# Of design pages that nobody here can read.
DECISION = re.compile(r"\bARCHITECTURE D\d|\(D\d{1,2}\)")


def stale_names(path, text, files):
    """A banner names its own file; comments name files that are there, by their name or by the end of their path."""
    found = []
    banner = re.match(r"//===- (\S+\.\w+) ", text)
    if banner and banner.group(1) != os.path.basename(path):
        found.append(f"{path}: the banner is of {banner.group(1)}")
    for number, line in enumerate(text.splitlines(), 1):
        comment = line[line.find("//"):] if "//" in line else ""
        for name in NAMED_FILE.findall(comment):
            ours = "/" not in name or name.startswith(TOPS)
            if ours and name not in FOREIGN_FILES and not any(f == name or f.endswith("/" + name) for f in files):
                found.append(f"{path}:{number}: there is no {name}")
        if DECISION.search(line):
            found.append(f"{path}:{number}: a page that is not here: {DECISION.search(line).group()}")
    return found


def tracked():
    """Files git knows, or, in an unpacked archive, all files."""
    try:
        out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, text=True).stdout
        return [f for f in out.split("\0") if f and os.path.isfile(os.path.join(ROOT, f))]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [f for f in folders if not f.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
        return found


def guard_of(path):
    return re.sub(r"[^A-Z0-9]", "_", path.upper())


def problems_of(path, text):
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        for pattern, what in ((PATHS, "a path of one machine"), (HOSTS, "a host of packages"), (UNFINISHED, "unfinished work"),
                              (SKIPPED, "a test that does not run")):
            match = pattern.search(line)
            if match:
                found.append(f"{path}:{number}: {what}: {match.group()}")
    if path.endswith(".h"):
        guard = guard_of(path)
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            found.append(f"{path}: the header guard is not {guard}")
    if path.endswith(SOURCE) and len(lines) > LONGEST:
        found.append(f"{path}: {len(lines)} lines; split it by theme (at most {LONGEST})")
    return found


def main():
    for path, text in (("a/B.cpp", 'open("/ho' 'me/me/x")'), ("a/B.cpp", "// TO" "DO later"), ("a/B.h", "#ifndef B_H\n"),
                       ("a/b.sh", "deb http://de" "b.example.org/debian stable main"), ("a/b.sh", "py" "pi.org"),
                       ("a/B.cpp", "\n" * 601), ("a/b.cpp", "GTEST_SK" "IP()")):
        if not problems_of(path, text):
            sys.exit(f"repository.py: does not see what is wrong with {text.strip() or 'a long file'}")
    if problems_of("a/B.h", "#ifndef A_B_H\n#define A_B_H\n// https://ui.perfetto.dev/home/x\n#endif\n"):
        sys.exit("repository.py: refuses a good header")
    for text in ("//===- Other.cpp - of A ---===//\n", "// see Absent.h\n", "/// a rule (ARCHITECTURE D" "3).\n", "// docs/absent.md\n"):
        if not stale_names("a/A.cpp", text, ["a/A.cpp"]):
            sys.exit(f"repository.py: does not see what is wrong with {text.strip()}")
    if stale_names("a/A.cpp", "//===- A.cpp - good ---===//\n// a/B.h, nccl.h, megatron/core/x.py\n", ["a/A.cpp", "a/B.h"]):
        sys.exit("repository.py: refuses names that are good")
    found, count, files = [], 0, tracked()
    for path in files:
        if path.endswith(TEXT) or os.path.basename(path) == "CMakeLists.txt":
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
            found += problems_of(path, text)
            if path.endswith(SOURCE):
                found += stale_names(path, text, files)
            count += 1
    print("\n".join(found))
    if found or count == 0:
        sys.exit(f"repository: {len(found)} problems")
    print(f"repository: {count} files are in order")


if __name__ == "__main__":
    main()
