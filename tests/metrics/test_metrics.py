#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma metrics` on made-up machines: values, both formats, the file it writes, exit codes; and what names metrics
elsewhere (documentation, rules, dashboard) names those that exist."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from machine import Machine, pin, table       # noqa: E402
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "doctor"))
import machines                               # noqa: E402

COMMAND = os.path.realpath(sys.argv.pop(1))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? ([0-9]+|\+Inf)$')


def run(*args, root=None, **more):
    if root:
        args += ("--root", root.path)
    return subprocess.run([COMMAND, "metrics", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          check=False, env={**os.environ, "LC_ALL": "C.UTF-8"}, **more)


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as file:
        return file.read()


def samples(text):
    """Of either format; what neither knows is an error, and so is anything twice or out of its family."""
    found, types, family = {}, {}, None
    for line in text.splitlines():
        if line == "# EOF":
            continue
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            if kind == "HELP":
                assert name not in types, line
                family = name
            assert name == family, line
            if kind == "TYPE":
                types[name] = rest
            elif kind == "UNIT":
                assert name.endswith("_" + rest), line
            else:
                assert kind == "HELP", line
            continue
        match = SAMPLE.match(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in (family, family + "_total"), line
        assert (types[family] == "counter") == name.endswith("_total"), line
        key = name.removeprefix("peerdma_") + (labels or "")
        assert key not in found, line
        found[key] = float(value)
    return found


class Case(unittest.TestCase):
    def machine(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Machine(folder.name)

    def values(self, m, *args, code=0):
        done = run(*args, root=m)
        self.assertEqual((done.returncode, done.stderr != ""), (code, code != 0), done.stderr)
        self.assertEqual(done.stdout.count("# EOF"), 1)
        self.assertTrue(done.stdout.endswith("# EOF\n"))
        return samples(done.stdout)


class Values(Case):
    def test_all(self):
        v = self.values(self.machine().whole())
        gpu, train = 'gpu="0",pci="0000:03:00.0"', 'pid="42",comm="train"'
        for key, value in {
                'source_readable{source="pins"}': 1, 'source_readable{source="module"}': 1, 'module_info{version="0.1.0"}': 1,
                'pins{provider="nvidia",state="live"}': 1, 'pins{provider="nvidia",state="revoked"}': 1,
                'pins{provider="host",state="live"}': 1,
                'pinned_bytes{provider="nvidia"}': 65536, 'pinned_bytes{provider="host"}': 4096,
                'operations_total{operation="pin"}': 12, 'operations_total{operation="unmap"}': 2,
                'revocations_total': 7, 'view_faults_total': 4,
                'user_objects{uid="1000",resource="pins"}': 2, 'user_objects{uid="1000",resource="exports"}': 3,
                'user_objects_limit{resource="pins"}': 65536, 'user_objects_limit{resource="mappings"}': float("inf"),
                'user_memory_bytes{uid="1000",resource="aperture"}': 65536, 'user_memory_bytes{uid="1000",resource="locked"}': 4096,
                'user_memory_limit_bytes{resource="aperture"}': 64 << 20,
                f'gpu_info{{{gpu},name="NVIDIA H200",uuid="GPU-1"}}': 1,
                f'gpu_bar1_size_bytes{{{gpu}}}': 256 << 20, f'gpu_bar1_used_bytes{{{gpu}}}': 36 << 20,
                f'gpu_aperture_held_bytes{{{gpu}}}': 65536, f'gpu_aperture_largest_free_bytes{{{gpu}}}': (256 << 20) - 65536,
                'device_mappings{device="0000:05:00.0"}': 3, 'device_mappings{device="0000:06:00.0"}': 1,
                f'process_pins{{{train}}}': 2, f'process_pinned_bytes{{{train}}}': 69632,
                'process_pins{pid="43",comm="serve"}': 0, 'process_revocations_total{pid="43",comm="serve"}': 5}.items():
            self.assertEqual(v.get(key), value, key)
        self.assertNotIn('user_objects{uid="1001",resource="pins"}', v)
        self.assertNotIn('user_memory_limit_bytes{resource="locked"}', v)

    def test_doctor(self):
        """The verdicts are the doctor's own, and the worst where there are several on one matter; without those on the process's limits,
        which are here those of the command that prints the metrics."""
        m = self.machine()
        there = machines.server(m.path, per_socket=1)
        there.put("dev/kmsg", "".join(line + "\n" for line in machines.TWO_TROUBLES))
        there.limits(memlock=65536, nofile=512)
        v = self.values(m)
        told = json.loads(subprocess.run([COMMAND, "doctor", "--json", "--ignore", "limits", "--root", m.path], capture_output=True,
                                         check=False).stdout)
        worst, number = {}, {"ok": 0, "cannot tell": 1, "slow": 2, "broken": 3}
        self.assertEqual((v["doctor_machine_verdict"], told["verdict"]), (3, "broken"))
        self.assertTrue([f for f in told["findings"] if f["ignored"]])
        told["findings"] = [f for f in told["findings"] if not f["ignored"]]
        for f in told["findings"]:
            f["verdict"] = f["verdict"] if f["counts"] else "ok"
            key = f'doctor_verdict{{check="{f["check"]}",subject="{f["subject"]}"}}'
            worst[key] = max(worst.get(key, 0), number[f["verdict"]])
        self.assertLess(len(worst), len(told["findings"]))
        self.assertEqual({key: value for key, value in v.items() if key.startswith("doctor_verdict")}, worst)
        for verdict in number:
            self.assertEqual(v[f'doctor_findings{{verdict="{verdict}"}}'],
                             sum(f["verdict"] == verdict for f in told["findings"]), verdict)

    def test_limits_of_a_service(self):
        """They are those of the process that collects, and no program's."""
        m = self.machine()
        machines.server(m.path, per_socket=1).limits(memlock=65536)
        self.assertEqual(subprocess.run([COMMAND, "doctor", "-q", "--root", m.path], check=False).returncode, 2)
        self.assertEqual(self.values(m)["doctor_machine_verdict"], 0)

    def test_left_out(self):
        m = self.machine().whole()
        v = self.values(m, "--no-doctor")
        self.assertFalse([key for key in v if "doctor" in key])
        self.assertIn('process_pins{pid="42",comm="train"}', v)
        v = self.values(m, "--no-processes")
        self.assertFalse([key for key in v if "pid=" in key or "cache" in key])
        self.assertIn('pins{provider="host",state="live"}', v)

    def test_formats(self):
        """The same samples; types and help where each format has them."""
        m = self.machine().whole()
        text, older = (run("--format", word, root=m).stdout for word in ("openmetrics", "prometheus"))
        self.assertEqual(text, run(root=m).stdout)
        self.assertEqual(samples(text), samples(older))
        self.assertIn("# TYPE peerdma_revocations counter\n", text)
        self.assertIn("# UNIT peerdma_pinned_bytes bytes\n", text)
        self.assertIn("# TYPE peerdma_revocations_total counter\n", older)
        self.assertIn("# HELP peerdma_revocations_total ", older)
        self.assertNotIn("# UNIT", older)
        self.assertNotIn("# EOF", older)

    def test_escapes(self):
        m = self.machine().whole().pins(pin(comm='a"b\\c'), pin(pid=44, comm="tab\x01é\xff"))
        v = self.values(m, "--no-doctor")
        self.assertEqual(v['process_pins{pid="42",comm="a\\"b\\\\c"}'], 1)
        self.assertTrue([key for key in v if 'pid="44",comm="tab\\\\x01é' in key], v)

    def test_twice(self):
        """What a table has twice is one sample."""
        m = self.machine().whole().accounts((7, 1, 0, 0, 0, 0, 0), (7, 2, 0, 0, 0, 0, 0))
        m.gpus(*2 * [(0, "0000:03:00.0", "H200", "GPU-1", 256 << 20, 1 << 20, 255 << 20)])
        self.assertEqual(self.values(m)['user_objects{uid="7",resource="pins"}'], 3)

    def test_sum_overflows(self):
        m = self.machine().whole().pins(*2 * [pin(pinned_length=(1 << 64) - 2, segments="-")])
        self.assertEqual(self.values(m)['pinned_bytes{provider="nvidia"}'], float("inf"))


class Sources(Case):
    def test_nothing(self):
        m = self.machine().put("etc/hostname", "x")
        v = self.values(m, code=2)
        self.assertEqual(v['source_readable{source="pins"}'], 0)
        self.assertEqual(v['source_readable{source="gpus"}'], 0)
        self.assertNotIn("module_info", "".join(v))

    def test_no_module(self):
        """GPUs alone are something; what pins hold of an aperture is then not known, and not 0."""
        m = self.machine().whole()
        for name in ("pins", "accounts", "stats", "users"):
            os.unlink(f"{m.path}/sys/kernel/debug/peerdma/{name}")
        v = self.values(m)
        self.assertEqual([v[f'source_readable{{source="{name}"}}'] for name in ("module", "pins", "accounts", "gpus")],
                         [0, 0, 0, 1])
        self.assertIn('gpu_bar1_used_bytes{gpu="0",pci="0000:03:00.0"}', v)
        self.assertFalse([key for key in v if "aperture" in key])

    def test_no_pins(self):
        """The table is there and empty: nothing is held, and that is known."""
        v = self.values(self.machine().whole().pins())
        self.assertEqual(v['gpu_aperture_held_bytes{gpu="0",pci="0000:03:00.0"}'], 0)
        self.assertEqual(v['gpu_aperture_largest_free_bytes{gpu="0",pci="0000:03:00.0"}'], 256 << 20)

    def test_no_root(self):
        """As the other commands: the folder is named, and nothing is printed."""
        m = self.machine().put("file", "")
        for path, word in ((m.path + "/none", "No such file or directory"), (m.path + "/file", "Not a directory")):
            for args in ((), ("--no-doctor",), ("-o", m.path + "/p.prom")):
                done = run("--root", path, *args)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"peerdma: metrics: {path}: {word}\n"))
        self.assertFalse(os.path.exists(m.path + "/p.prom"))

    def test_malformed_configuration(self):
        """What is wanted is then not known, nor is a verdict: the file of this machine, in a mount namespace of its own."""
        script = "mount -t tmpfs none /etc && mkdir /etc/peerdma && printf %b \"$1\" >/etc/peerdma/doctor.conf && exec \"$2\" metrics"
        enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*enter, "mount -t tmpfs none /etc"], capture_output=True, check=False).returncode:
            self.skipTest("no mount namespaces here")
        for text, readable, words in (("need = none\\n", 1, ""), ("need = none\\nneed = dmabof\\n", 0, "doctor.conf:2: there is no way")):
            done = subprocess.run([*enter, script, "sh", text, COMMAND], capture_output=True, text=True, check=False)
            v = samples(done.stdout)
            self.assertEqual(v['source_readable{source="doctor"}'], readable, done.stderr)
            self.assertEqual("doctor_machine_verdict" in v, bool(readable))
            self.assertIn(words, done.stderr)

    def test_malformed(self):
        for name, text in (("sys/kernel/debug/peerdma/pins", "what\n"),
                           ("sys/kernel/debug/peerdma/pins", table(pin()) + "x\n"),
                           ("sys/kernel/debug/peerdma/accounts", "uid\n"),
                           ("sys/kernel/debug/peerdma/accounts", "uid\tpins\tmappings\tviews\texports\taperture\tlocked\nx\n"),
                           ("nvml.tsv", "nothing\n"), ("bundle.tsv", "nothing\n")):
            v = self.values(self.machine().whole().put(name, text), code=1)
            self.assertEqual(v['source_readable{source="module"}'], 1, name)


class File(Case):
    def test_replaced(self):
        m = self.machine().whole()
        file = m.path + "/x/peerdma.prom"
        m.put("x/peerdma.prom", "old")
        before = os.stat(file).st_ino
        umask = os.umask(0o77)
        done = run("-o", file, root=m)
        os.umask(umask)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(file, encoding="utf-8") as text:
            self.assertEqual(text.read(), run(root=m).stdout)
        self.assertNotEqual(os.stat(file).st_ino, before)
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o644)
        self.assertEqual(os.listdir(m.path + "/x"), ["peerdma.prom"])

    def test_here(self):
        m = self.machine().whole()
        os.mkdir(m.path + "/x")
        self.assertEqual(run("--output", "p.prom", root=m, cwd=m.path + "/x").returncode, 0)
        self.assertEqual(os.listdir(m.path + "/x"), ["p.prom"])

    def test_fails(self):
        """The old file stays, and nothing beside it."""
        m = self.machine().whole().put("x/d/in", "")
        for file, word in ((m.path + "/none/p.prom", "No such file"), (m.path + "/x/d", "directory")):
            done = run("-o", file, root=m)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
            self.assertIn(file, done.stderr)
        self.assertEqual(os.listdir(m.path + "/x"), ["d"])

    def test_no_plain_file(self):
        """What is no file is not replaced: root's --output /dev/null would take /dev/null from all."""
        m = self.machine().whole().put("x/d/in", "")
        os.mkfifo(m.path + "/x/pipe")
        os.symlink("/dev/null", m.path + "/x/null")
        for name in ("pipe", "null"):
            done = run("-o", f"{m.path}/x/{name}", root=m)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"x/{name}: not a regular file", done.stderr)
        self.assertEqual(sorted(os.listdir(m.path + "/x")), ["d", "null", "pipe"])
        self.assertEqual(os.readlink(m.path + "/x/null"), "/dev/null")
        self.assertTrue(stat.S_ISFIFO(os.stat(m.path + "/x/pipe").st_mode))

    def test_link(self):
        """A link to a file, or to none, is not replaced, and what it leads to is left."""
        m = self.machine().whole().put("x/kept", "old")
        os.symlink("kept", m.path + "/x/link")
        os.symlink("none", m.path + "/x/loose")
        for name in ("link", "loose"):
            file = f"{m.path}/x/{name}"
            done = run("-o", file, root=m)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"x/{name}: not a regular file", done.stderr)
            self.assertTrue(os.path.islink(file))
        self.assertEqual(sorted(os.listdir(m.path + "/x")), ["kept", "link", "loose"])
        with open(m.path + "/x/kept", encoding="utf-8") as text:
            self.assertEqual(text.read(), "old")

    def test_full(self):
        """A file system that is full: a limit on the size of files does the same."""
        m = self.machine().whole().put("x/p.prom", "old")

        def small():
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        done = run("-o", m.path + "/x/p.prom", root=m, preexec_fn=small)
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(os.listdir(m.path + "/x"), ["p.prom"])
        with open(m.path + "/x/p.prom", encoding="utf-8") as text:
            self.assertEqual(text.read(), "old")

    def test_output_fails(self):
        """An error, also where nothing could be read (2)."""
        for m in (self.machine().whole(), self.machine()):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([COMMAND, "metrics", "--no-doctor", "--root", m.path], stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)

    def test_usage(self):
        for args in (["--format", "json"], ["--format"], ["--json"], ["more"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""), args)
            self.assertNotEqual(done.stderr, "", args)
        self.assertIn("Usage: peerdma metrics", run("--help").stdout)


class Names(unittest.TestCase):
    """Each name is one that exists, and in the documentation is each that exists."""
    FAMILIES = {name + ("_bytes" if kind == "BYTES" else "_total" if kind == "COUNTER" else "") for kind, name in
                re.findall(r'(GAUGE|BYTES|COUNTER)\("(\w+)"', read("peerdma/tools/metrics/families.c"))} | {"doctor_verdict"}

    def named(self, text):
        return set(re.findall(r"\bpeerdma_(\w+)", text))

    def test_documentation(self):
        text = read("docs/monitoring.md")
        self.assertEqual(set(re.findall(r"^\| `peerdma_(\w+)`", text, re.M)), self.FAMILIES)

    def test_rules(self):
        self.assertLessEqual(self.named(read("packaging/prometheus/peerdma.rules.yml")), self.FAMILIES)
        self.assertLessEqual(self.named(read("packaging/prometheus/peerdma.test.yml")), self.FAMILIES)

    def test_alerts_have_tests(self):
        alerts = set(re.findall(r"alert: (\w+)", read("packaging/prometheus/peerdma.rules.yml")))
        fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", read("packaging/prometheus/peerdma.test.yml")))
        self.assertEqual(fired, alerts)
        self.assertLessEqual(alerts, set(re.findall(r"^\| `(\w+)`", read("docs/monitoring.md"), re.M)))

    def test_dashboard(self):
        board = json.loads(read("packaging/prometheus/peerdma-dashboard.json"))
        panels = [p for p in board["panels"] if p["type"] != "row"]
        self.assertEqual(len({p["id"] for p in board["panels"]}), len(board["panels"]))
        taken = set()
        for p in board["panels"]:
            at = p["gridPos"]
            for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
                self.assertNotIn(cell, taken, p["title"])
                self.assertLess(cell[0], 24, p["title"])
                taken.add(cell)
        for p in panels:
            for target in p["targets"]:
                self.assertTrue(self.named(target["expr"]), p["title"])
                self.assertLessEqual(self.named(target["expr"]), self.FAMILIES, p["title"])


unittest.main()
