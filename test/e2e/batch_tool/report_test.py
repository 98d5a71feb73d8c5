#!/usr/bin/env python3
"""The page of --report.

    report_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import html.parser
import json
import sys
import unittest

from batch_tool import Folder, ToolTest, call, some_lengths


class Page(html.parser.HTMLParser):
    """Whether every element is closed in order, what would be fetched, the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.problems, self.counts = [], [], [], {}

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag in ("script", "link", "img", "iframe") or any(k in ("src", "href") for k, _ in attributes):
            self.problems.append(f"{tag} {attributes}")
        for key, value in attributes:
            if key in ("x", "y", "width", "height", "x1", "x2", "y1", "y2") and not -1 <= float(value) <= 1200:
                if key != "width" or value != "device-width":
                    self.problems.append(f"{tag} {key}={value}")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.text.append(data)


class Report(ToolTest):
    def page(self, lengths, *flags):
        call(self.table(lengths), "--tiles", 9, "--tokens", 4096, "-o", self.path("out"), "--report", self.path("page.html"),
             *flags)
        with open(self.path("page.html"), encoding="utf-8") as file:
            text = file.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.problems, [])
        for word in ("http", "url(", "@import"):
            self.assertNotIn(word, text)
        self.assertIn("prefers-color-scheme:dark", text)
        return page, "".join(page.text)

    def test_numbers_and_pictures(self):
        page, text = self.page(some_lengths(5000, 1), "--ranks", 8)
        facts = Folder(self.path("out")).json
        self.assertEqual(page.counts["svg"], 5)
        for part in (f"{facts['groups']:,}", f"{facts['groups_lower_bound']:,}", facts["bound_method"],
                     f"{facts['after']['dist_ratio_llm']:.5f}", f"{facts['before']['pad_ratio']:.5f}"):
            self.assertIn(part, text)
        self.assertNotIn("Cost", text)

    def test_cost_has_a_section(self):
        with open(self.path("cost.json"), "w") as file:
            json.dump(dict(token_ns=2e4), file)
        page, text = self.page(some_lengths(2000, 1), "--ranks", 4, "--cost", self.path("cost.json"))
        self.assertEqual(page.counts["svg"], 7)
        self.assertIn("Cost", text)

    def test_little_and_odd_data(self):
        self.page([(0, 0)])
        self.page([(0, 5)], "--ranks", 4)
        self.page([(30, 90000), (1, 1)], "--oversize", "own-group")

    def test_shares_add_up(self):
        """The bars of each picture stand for all groups."""
        self.page(some_lengths(3000, 2), "--ranks", 4)
        with open(self.path("page.html"), encoding="utf-8") as file:
            pictures = file.read().split("<svg ")[2::2]
        self.assertEqual(len(pictures), 2)
        for picture in pictures:
            for series in ("s0", "s1"):
                shares = [float(part.split(": ")[1].split(" %")[0]) for part in picture.split(f'class="{series}"')[1:]]
                self.assertAlmostEqual(sum(shares), 100, delta=0.6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
