"""Every numbered constraint of the dialect's sources stands in docs/dialect.md and has a test that names it."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[5]
LABEL = re.compile(r"\b[a-z_]+_c\d+\b")


def labels(paths):
    return {label for path in paths for label in LABEL.findall(path.read_text())}


sources = [p for p in (root / "dialects").rglob("*") if p.suffix in (".td", ".cpp")]
declared = labels(sources)
tests = [p for p in [*(root / "test/lit").rglob("*.mlir"), *(root / "test/unit").rglob("*.cpp")]]
problems = [f"{label} is not in docs/dialect.md" for label in sorted(declared - labels([root / "docs/dialect.md"]))]
problems += [f"{label} has no test" for label in sorted(declared - labels(tests))]
problems += [f"docs/dialect.md has {label}, which no source checks"
             for label in sorted(labels([root / "docs/dialect.md"]) - declared)]
print("\n".join(problems) or f"{len(declared)} constraints, all documented and tested")
sys.exit(bool(problems))
