# SPDX-License-Identifier: MIT
"""For tests of one check of `peerdma doctor`: its findings, and the state of ways, on a made-up machine."""

import json

from case import Case, run


class Findings(Case):
    check = None            # the one that the tests are about

    def told(self, m, *args):
        """The exit code, and what was said as JSON."""
        done = run("doctor", "--json", *args, root=m.path)
        self.assertEqual(done.stderr, "")
        return done.returncode, json.loads(done.stdout)

    def found(self, m, *args):
        """The check's findings that are not ok: {subject: verdict}, with a note of every one's words in self.words."""
        findings = [f for f in self.told(m, *args)[1]["findings"] if f["check"] == self.check]
        self.words = json.dumps(findings)
        for f in findings:
            self.assertTrue(f["evidence"], f)
            if f["verdict"] != "ok":
                self.assertTrue(f["consequence"] and f["remedy"], f)
        return {f["subject"]: f["verdict"] for f in findings if f["verdict"] != "ok"}

    def state(self, m, gpu, peer, way, *args):
        """That of a way of the path between two devices, and why."""
        for path in self.told(m, *args)[1]["paths"]:
            if path["gpu"]["label"] == gpu and (path["peer"] or {}).get("label") == peer:
                return next((w["state"], w["why"]) for w in path["ways"] if w["way"] == way)
        raise AssertionError(f"no path between {gpu} and {peer}")
