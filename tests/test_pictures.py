#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/pictures finds what it is there for, and nothing in a picture that is in order."""

import os
import subprocess
import tempfile
import unittest

PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
STYLE = (".page { fill: #ffffff } .box { fill: #dddddd; stroke: #000000 } text { fill: #222222; font-size: 12px } "
         "@media (prefers-color-scheme: dark) { .page { fill: #111111 } .box { fill: #333333; stroke: #ffffff } "
         "text { fill: #eeeeee } }")
BOX = '<rect class="box" x="10" y="10" width="120" height="30"/>'
NAME = '<text x="16" y="29">a name</text>'

# What is wrong with it: the words that say so.
WRONG = {
    "overlap": (BOX + NAME + '<text x="30" y="33">another</text>', ["'a name' and 'another' overlap"]),
    "edge": (BOX + NAME + '<text x="180" y="80">over it</text>', ["'over it' goes over the edge"]),
    "top": ('<text x="16" y="5">a name</text>', ["'a name' goes over the edge"]),
    "box": (BOX + '<text x="100" y="29">a name</text>', ["light: something goes through 'a name'", "dark: something"]),
    "line": (BOX + NAME + '<path d="M0 26H200" stroke="#888888"/>', ["light: something goes through 'a name'", "dark: something"]),
    "pale": (BOX + '<text x="16" y="29" style="fill: #aaaaaa">a name</text>', ["light: 'a name' has a contrast of 1."]),
    "dark": ('<rect x="10" y="10" width="120" height="30" fill="#ffffff"/>' + NAME, ["dark: 'a name' has a contrast of 1."]),
    "hidden": (BOX + NAME + '<rect x="12" y="12" width="100" height="26" fill="#ffcc00"/>',
               ["light: 'a name' has a contrast of 1.0", "dark: 'a name' has a contrast of 1.0"]),
    "turned": (NAME + '<text transform="translate(40 60) rotate(-90)">another</text>', ["'another' and 'a name' overlap"]),
    # Wider than the picture in DejaVu Sans only.
    "wide": ('<text x="2" y="29" font-family="Helvetica, Arial">wwwwwwwwwwwwwwwwwwwwww</text>', ["goes over the edge"]),
}
RIGHT = {
    "right": BOX + NAME + '<text x="16" y="60">more, <tspan font-weight="bold">and</tspan> more</text><text x="16" y="75"></text>',
    "turned-right": BOX + NAME + '<text transform="translate(160 90) rotate(-90)">another</text>',
    "nothing": BOX,
}


class Pictures(unittest.TestCase):
    def look(self, pictures, style=STYLE, attributes='viewBox="0 0 200 100"'):
        """The exit code, and what is said of each."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in pictures.items():
                with open(os.path.join(folder, name + ".svg"), "w", encoding="utf-8") as file:
                    file.write(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}><style>{style}</style>'
                               f'<rect class="page" width="200" height="100"/>{content}</svg>\n')
            done = subprocess.run([PICTURES, *(os.path.join(folder, name + ".svg") for name in pictures)],
                                  capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        said = {name: [line.split(".svg: ", 1)[1] for line in done.stdout.splitlines() if f"/{name}.svg: " in line]
                for name in pictures}
        return done.returncode, said

    def test_wrong(self):
        code, said = self.look({name: content for name, (content, _) in WRONG.items()})
        self.assertEqual(code, 1)
        for name, (_, words) in WRONG.items():
            self.assertEqual(len(said[name]), len(words), f"{name}: {said[name]}")
            for line, word in zip(said[name], words):
                self.assertIn(word, line, name)

    def test_right(self):
        for attributes in ('viewBox="0 0 200 100"', 'width="200" height="100"'):
            self.assertEqual(self.look(RIGHT, attributes=attributes), (0, {name: [] for name in RIGHT}))

    def test_no_dark(self):
        code, said = self.look({"light": BOX + NAME}, style=STYLE.split("@media", maxsplit=1)[0])
        self.assertEqual((code, len(said["light"])), (1, 1))
        self.assertIn("no colours for a dark page", said["light"][0])


if __name__ == "__main__":
    unittest.main()
