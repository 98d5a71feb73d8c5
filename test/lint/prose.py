#!/usr/bin/env python3
"""README and docs are written as sentences, one a line, in American spelling: no line of prose holds two sentences, no sentence is broken
across lines, and no table cell is longer than a reader takes in at once. Code blocks are not looked at. Sources are in American spelling too."""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST_CELL = 200  # characters
FENCE = re.compile(r"\s*```")
CELL_BORDER = re.compile(r"(?<!\\)\|")
LIST_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
# The words of a list item or paragraph that name what it is about: they may end with a full stop.
LEAD = re.compile(r"^(\s*(?:[-*]|\d+\.) )?(\*\*[^*]+\*\*)?")
# A full stop that ends a sentence: a new one begins behind it. That of an initial (E. Alpaydin) does not.
SENTENCE_END = re.compile(r"(?<![ (][A-Z])[.!?]\)? +[\"(*`\[]*[A-Z`]")
LINE_END = re.compile(r"[.:;?!][\"')*`]*$")
BRITISH = re.compile(r"\b\w*(?:(?:material|special|initial|optim|recogn|normal|serial|quant|general|summar|organ|vector)is(?:e|ing|ation|able)|"
                     r"analyse(?!s)|neighbour|behaviour|colour|labelled|modelled|cancelled|programmes?\b)\w*", re.I)
SOURCES = (".cpp", ".h", ".cu", ".td", ".py", ".sh", ".mlir")
APART = re.compile(r"#|!\[|<|$")  # headings, pictures, comments, empty lines


def without_code(line):
    """Code and addresses hold full stops that end nothing."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`x`", line))


def problems_of(path, text):
    found, in_fence, unfinished = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}:{number}"
        if not in_fence:
            found += [f"{place}: \"{match.group()}\" has an American spelling" for match in BRITISH.finditer(without_code(line))]
        if FENCE.match(line):
            in_fence = not in_fence
        if in_fence or FENCE.match(line) or line.startswith("    "):
            unfinished = False
        elif line.startswith("|"):
            unfinished = False
            cells = [cell.strip() for cell in CELL_BORDER.split(line)[1:-1]]
            found += [f"{place}: a table cell of {len(cell)} characters; more than {LONGEST_CELL} belong below the table" for cell in cells
                      if len(cell) > LONGEST_CELL]
        else:
            prose = without_code(line)
            if SENTENCE_END.search(LEAD.sub("", prose)):
                found.append(f"{place}: several sentences on a line")
            if unfinished and not APART.match(line) and not LIST_ITEM.match(line):
                found.append(f"{place}: a sentence that goes on from the line before")
            unfinished = not APART.match(line) and not LINE_END.search(prose.strip())
    return found


def spelling_of(path, text):
    return [f"{path}:{number}: \"{match.group()}\" has an American spelling" for number, line in enumerate(text.splitlines(), 1)
            for match in BRITISH.finditer(line)]


def source_paths():
    """What git tracks, without this file, which has the words."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    return [path for path in done.stdout.splitlines() if path.endswith(SOURCES) and path != "test/lint/prose.py"]


def check_itself():
    for text, wrong in (("One sentence.\nAnother one: `a. B`.\n", 0), ("One sentence. Another one.\n", 1), ("A sentence\nthat goes on.\n", 1),
                        ("* **A lead.** A sentence by E. Alpaydin.\n  Another one.\n", 0), (f"| a | {'b' * 201} |\n", 1), ("Specialisation of `neighbours`.\n", 1), ("```\nA. B\nC\n```\n", 0)):
        if len(problems_of("text", text)) != wrong:
            sys.exit(f"prose.py: does not judge {text!r} rightly")
    if len(spelling_of("a.cpp", "int colourOf(); // materialised once\nanalyses.analyze(); // specialize\n")) != 2:
        sys.exit("prose.py: does not see British words in sources")


def main():
    check_itself()
    paths = [path for pattern in ("README.md", "docs/*.md", "examples/*/README.md", "test/data/README.md") for path in sorted(glob.glob(os.path.join(ROOT, pattern)))]
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            found += problems_of(os.path.relpath(path, ROOT), file.read())
    sources = source_paths()
    for path in sources:
        if os.path.exists(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                found += spelling_of(path, file.read())
    print("\n".join(found))
    if found:
        sys.exit(f"prose: {len(found)} places")
    print(f"prose: {len(paths)} texts are in order, and the spelling of {len(sources)} sources")


if __name__ == "__main__":
    main()
