#!/usr/bin/env python3
"""A type is defined once: no two files of the product define a class, struct or enum of one name in one namespace.
A linker keeps one of two such types in silence, and namespaces here are wider than folders."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMESPACE = re.compile(r"^namespace\s*([\w:]*)\s*\{")
TYPE = re.compile(r"^(?:template\s*<[^{};]*>\s*)?(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)(?:\s+final)?(?:\s*:[^:].*)?\s*\{")


def types_of(text):
    """The qualified names of types that a file defines outside anonymous namespaces; nested types are left out."""
    inside, found = [], []
    for line in text.splitlines():
        if match := NAMESPACE.match(line):
            inside.append(match.group(1))
        elif line.startswith("}") and "namespace" in line and inside:
            inside.pop()
        elif (match := TYPE.match(line)) and "" not in inside:
            found.append("::".join(inside + [match.group(1)]))
    return found


def twice(files):
    """What (path, text) of the files define more than once."""
    where = {}
    for path, text in files:
        for name in types_of(text):
            where.setdefault(name, set()).add(path)
    return [f"{name} is defined in {' and '.join(sorted(paths))}" for name, paths in sorted(where.items()) if len(paths) > 1]


def self_test():
    one = "namespace omnibal::rt {\nstruct Load {\n};\n} // namespace omnibal::rt\n"
    hidden = "namespace omnibal::rt {\nnamespace {\nstruct Load {\n};\n} // namespace\n} // namespace omnibal::rt\n"
    other = one.replace("omnibal::rt", "omnibal::cost")
    if not twice([("A.h", one), ("B.h", one.replace("struct Load {", "class Load final : public Base {"))]):
        sys.exit("definitions.py: does not see a type that is defined twice")
    if twice([("A.h", one), ("B.cpp", hidden), ("C.h", other), ("D.h", one.replace(" {\n}", ""))]):
        sys.exit("definitions.py: takes types of different namespaces or declarations for one type")


def main():
    self_test()
    files = []
    for top in ("runtime", "dialects", "importers", "passes", "tools"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".cuh", ".cu")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        files.append((os.path.relpath(path, ROOT), file.read()))
    found = twice(files)
    print("\n".join(found))
    if found or not files:
        sys.exit(f"definitions: {len(found)} types are defined twice; give one of them another name or namespace")
    print(f"definitions: {sum(len(types_of(text)) for _, text in files)} types of {len(files)} files are defined once")


if __name__ == "__main__":
    main()
