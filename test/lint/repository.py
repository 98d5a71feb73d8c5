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
    found, count = [], 0
    for path in tracked():
        if path.endswith(TEXT) or os.path.basename(path) == "CMakeLists.txt":
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                found += problems_of(path, file.read())
            count += 1
    print("\n".join(found))
    if found or count == 0:
        sys.exit(f"repository: {len(found)} problems")
    print(f"repository: {count} files are in order")


if __name__ == "__main__":
    main()
