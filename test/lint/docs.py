#!/usr/bin/env python3
"""README and docs against the sources: every pass and constraint is described and exists, so are
kernels, ONNX operators, program fields and rules, log fields; every flag that a text mentions exists in a tool, every
link leads to a file and a heading that exist."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Flags in the texts that belong to other people's programs.
FOREIGN = {"--install", "--prefix", "--no-install-recommends", "--nproc-per-node",
           # of torchrun and srun
           "--gpus-per-node", "--master-addr", "--master-port", "--mpi", "--nnodes", "--no-python", "--node-rank", "--nodes", "--ntasks-per-node", "--open-mode", "--requeue", "--signal", "--time",
           # of cmake and lit
           "--build", "--filter", "--preset"}


def read(*patterns):
    """The files' texts together; an error if a pattern finds none."""
    text = ""
    for pattern in patterns:
        paths = sorted(glob.glob(os.path.join(ROOT, pattern)))
        if not paths:
            sys.exit(f"docs.py: there is no {pattern}")
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text += file.read() + "\n"
    return text


def compare(what, declared, described):
    """Both ways; sets of names."""
    if not declared:
        return [f"{what}: the sources seem to have none; this check no longer sees them"]
    return ([f"{what} {name} is not described" for name in sorted(declared - described)] +
            [f"{what} {name} is described but does not exist" for name in sorted(described - declared)])


def wording(text):
    return re.sub(r"\s+", " ", text).strip()


def defined_rules():
    """Rule -> (source, what it says) for every rule that a comment of a source defines: lines `//   some_c1  words`, further
    ones indented below the words. Besides, what is wrong: a rule defined twice has two meanings."""
    rules, found = {}, []
    for top in ("passes", "runtime/planner"):
        for path in sorted(glob.glob(os.path.join(ROOT, top, "**", "*.[ch]*"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for label, words in re.findall(r"^//+ {3}([a-z_]+_c\d+) +(\S.*(?:\n//+ {8,}\S.*)*)", text, re.M):
                if label in rules:
                    found.append(f"rule {label} is defined in {rules[label][0]} and in {os.path.relpath(path, ROOT)}")
                rules[label] = os.path.relpath(path, ROOT), wording(re.sub(r"\n//+", " ", words))
    constraints = re.findall(r"\* \((\w+_c\d+)\)", read("dialects/*/*.td", "dialects/*/*/*.td"))
    found += [f"rule {label} is defined in {rules[label][0]} and in a dialect" for label in sorted(set(rules) & set(constraints))]
    found += [f"constraint {label} is defined twice in the dialects" for label in sorted(set(constraints)) if constraints.count(label) > 1]
    return rules, found


def rule_tables():
    """A table of rules in docs says what their sources say, in their words."""
    rules, found = defined_rules()
    described = dict(re.findall(r"^\| ([a-z_]+_c\d+) \| (.*) \|$", read("docs/*.md"), re.M))
    found += compare("rule", set(rules), set(described))
    return found + [f"rule {label}: docs say \"{described[label]}\", {source} says \"{words}\""
                    for label, (source, words) in sorted(rules.items()) if described.get(label, words) != words]


def passes():
    sources = read("passes/*/Passes.td", "passes/*/*/Passes.td", "passes/*/Pipeline*.cpp")
    declared = set(re.findall(r'(?:Pass<|RaisingPass<|pipeline\(\s*|PassPipelineRegistration<\w*>\(\s*)"(omnibal-[\w-]+)"', sources))
    text = read("docs/passes.md")
    described = set(re.findall(r"^\| `(omnibal-[\w-]+)` \|", text, re.M))
    labels = set(re.findall(r'"(function_c\d+):', read("passes/differentiate/VerifyFunctions.cpp")))
    return (compare("pass", declared, described) +
            compare("constraint", labels, set(re.findall(r"^\| (function_c\d+) \|", text, re.M))))


def program():
    text = read("docs/program.md")
    rules = set(re.findall(r'broken\("(p\d+)"', read("runtime/program/verify/Verify*.cpp")))
    found = compare("rule", rules, set(re.findall(r"^\| (p\d+) \|", text, re.M)))
    sources = read("runtime/program/ProgramJson.cpp", "runtime/program/ProgramIO.cpp")
    fields = {name for keys in re.findall(r"onlyKeys\(\s*\{([^}]*)\}", sources) for name in re.findall(r'"(\w+)"', keys)}
    names = set(re.findall(r"`(\w+)`", text))
    return found + compare("program field", fields, fields & names)


def log():
    line = re.search(r"ordered_json line = \{(.*?)\};", read("runtime/training/report/Report.cpp"), re.S)
    fields = set(re.findall(r'\{"(\w+)",', line.group(1))) if line else set()
    return compare("log field", fields, fields & set(re.findall(r"`(\w+)`", read("docs/runtime.md"))))


def tool_flags(tool, text):
    """Every flag of a tool has its row in a table of the text."""
    options = flags_of(" ".join(re.findall(r'add_(?:option|flag)\(\s*"([^"]+)"', read(f"tools/{tool}/Options.cpp"))))
    rows = " ".join(re.findall(r"^\| ([^|]*) \|", text, re.M)) + " --output"  # its row has the short form
    return compare(f"flag of {tool}", options, options & flags_of(rows))


def batches():
    text = read("docs/batching.md")
    fields = set(re.findall(r'(?:\{|object\[)"(\w+)"[,\]]', read("runtime/batching/io/BatchesFolder.cpp")))
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    return compare("field of batches.json", fields, fields & words) + tool_flags("omnibal-batch", text)


def plans():
    text = read("docs/planner.md")
    steps = read("docs/step-plans.md")
    step_rules = set(re.findall(r'"(step_s\d+)"', read("runtime/planner/step/CheckStepPlan.cpp")))
    rules = {"plan_" + name for name in re.findall(r'report\("(c\d+)"', read("runtime/planner/evaluate/VerifyPlan.cpp"))}
    return (tool_flags("omnibal-plan", text + steps) +
            compare("rule", step_rules, set(re.findall(r"^\| (step_s\d+) \|", steps, re.M))) +
            compare("rule", rules, set(re.findall(r"^\| (plan_c\d+) \|", text, re.M))))


def kernels_and_operators():
    words = set(re.findall(r"`(\w+)`", read("docs/kernels.md")))
    kernels = set(re.findall(r'table\["(\w+)"\]', read("runtime/backends/host/kernels/*.cpp", "runtime/backends/host/kernels/plain/*.cpp")))
    text = read("docs/importing.md")
    table = re.search(r"^\| theme .*?^$", text, re.M | re.S)
    # Loop and Scan are in the table only to be refused with a message of their own.
    operators = set(re.findall(r'\{"([A-Z]\w+)",\s*\w+,', read("importers/onnx/ops/*.cpp"))) - {"Loop", "Scan"}
    described = set(re.findall(r"\b[A-Z]\w+", table.group())) if table else set()
    return compare("kernel", kernels, kernels & words) + compare("operator", operators, described)


def flags_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def texts():
    return ["README.md"] + sorted(os.path.relpath(p, ROOT) for folder in ("docs/*.md", "examples/*/README.md")
                                  for p in glob.glob(os.path.join(ROOT, folder)))


def flags():
    known = flags_of(read("tools/*/*.cpp", "tools/python/*.py", "tools/scripts/*.sh", "test/*.sh", "test/bench/*/*.py", "test/lint/*.py", "test/gpu/*.py",
                          "test/fuzz/*.py", "test/e2e/node_tests/*.py", "examples/*/*.py")) | FOREIGN
    passes_known = read("passes/*/Passes.td", "passes/*/*/Passes.td", "passes/*/Pipeline*.*", "test/lib/*.cpp", "tools/omnibal-opt/main.cpp")
    known |= {"--" + name for name in re.findall(r'"([\w-]+)"', passes_known)}
    # Every one has these, or every driver of MLIR's passes.
    known |= {"--help", "--version", "--pass-pipeline", "--remarks-filter", "--remark-format"}
    return [f"{path}: no tool has the flag {flag}" for path in texts() for flag in sorted(flags_of(read(path)) - known)]


def families():
    """The numbers of families that train, wherever they are said, are those of the table's rows with a loss."""
    table = read("docs/models.md")
    rows = len(re.findall(r"^\| \S+ \|[^|]*\| \d+ \| yes \| \S+ \| \S+ \| *\|$", table, re.M))
    said = re.findall(r"^(\d+) of the \d+ families", table, re.M) + re.findall(r"(\d+) families of Transformers", read("README.md"))
    return [f"{number} families train, says README.md or docs/models.md; the table has {rows}" for number in said
            if int(number) != rows] + ([] if len(said) == 2 else ["README.md and docs/models.md do not both say how many families train"])


def variables():
    """Every environment variable of the product has its row."""
    literals = [p for top in ("runtime", "tools", "passes") for p in glob.glob(os.path.join(ROOT, top, "**", "*.cpp"), recursive=True)]
    used = {name for path in literals for name in re.findall(r'"(OMNIBAL_[A-Z0-9_]+)"', read(os.path.relpath(path, ROOT)))}
    used |= set(re.findall(r"\$\{(OMNIBAL_[A-Z0-9_]+)", read("tools/scripts/*.sh", "test/run_tests.sh", "examples/*/*.sh")))
    return compare("environment variable", used, set(re.findall(r"^\| `(OMNIBAL_[A-Z0-9_]+)` \|", read("docs/running.md"), re.M)))


def walks():
    """The paths that docs/contributing.md and docs/architecture.md name exist."""
    found = []
    for page in ("docs/contributing.md", "docs/architecture.md"):
        for name in re.findall(r"`((?:dialects|importers|passes|runtime|tools|test)/[\w/.-]+)`", read(page)):
            if not os.path.exists(os.path.join(ROOT, name)):
                found.append(f"{page}: there is no {name}")
    return found


def anchors(text):
    """The names by which links reach the headings of a text."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in re.findall(r"^#+ +(.*)$", prose, re.M)}


def links():
    found = []
    for path in texts():
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", read(path)):
            if target.startswith("http"):
                continue
            file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if not os.path.exists(os.path.join(ROOT, file)):
                found.append(f"{path}: there is no {target}")
            elif anchor and anchor not in anchors(read(file)):
                found.append(f"{path}: {file} has no heading #{anchor}")
    linked = set(re.findall(r"\(docs/([\w-]+\.md)\)", read("README.md")))
    pages = {os.path.basename(p) for p in texts() if p.startswith("docs/")}
    return found + [f"README.md does not link docs/{page}" for page in sorted(pages - linked)]


def main():
    if compare("x", {"a", "b"}, {"b", "c"}) != ["x a is not described", "x c is described but does not exist"]:
        sys.exit("docs.py: does not see a difference")
    if flags_of("`--no-such` a--b ---c") != {"--no-such"}:
        sys.exit("docs.py: does not see flags")
    if anchors("## Near, far\n### `a.b` c") != {"near-far", "ab-c"}:
        sys.exit("docs.py: does not see headings")
    found = passes() + rule_tables() + program() + log() + batches() + plans() + kernels_and_operators() + flags() + families() + variables() + walks() + links()
    print("\n".join(found))
    if found:
        sys.exit(f"docs: {len(found)} places are not true any more")
    print(f"docs: {len(texts())} texts agree with the sources")


if __name__ == "__main__":
    main()
