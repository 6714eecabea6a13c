#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma doctor --pair` on machines that differ in one thing each, and on remote shells that misbehave."""

import json
import os
import random
import re
import stat
import subprocess
import sys
import tarfile
import time

import machines
from case import COMMAND, Case, conforms, run

import unittest

SEED = int(os.environ.get("DOCTOR_SEED", "1"))
VERDICTS = ["same", "differs", "cannot tell", "slow", "broken"]
CODES = {"same": 0, "differs": 0, "broken": 1, "slow": 2, "cannot tell": 3}
DOCTORS = {"ok", "cannot tell", "slow", "broken"}
FACTS = [{"fact": str, "a": str, "b": str, "verdict": set(VERDICTS), "consequence": (str, None), "remedy": (str, None)}]
RAIL = {"gpu": (str, None), "adapter": (str, None), "device": (str, None)}
MACHINE = {"name": str, "verdict": DOCTORS, "kernel": (str, None)}
SCHEMA = {"schema": {"peerdma-doctor-pair/1"}, "version": str, "verdict": set(VERDICTS), "a": MACHINE, "b": MACHINE,
          "facts": FACTS, "rails": [{"a": RAIL, "b": RAIL, "facts": FACTS}],
          "moved": [{"between": str, "by": str, "operation": (str, None), "bytes": int, "why": (str, None),
                     "result": {"equal", "differs", "failed", "not compared", "not registered"}}]}


WAITING = re.compile("peerdma: doctor: .*: waiting for its (?:bundle, [0-9]+ s|greeting)\n|peerdma: doctor: .*: waiting\n")


def errors(done):
    """Standard error without what is said of waits: a machine that has much to do is slow."""
    return WAITING.sub("", done.stderr)


class Pair(Case):
    def infiniband(self, per_socket=1):
        m = machines.server(self.folder(), per_socket=per_socket)
        for number in range(4 * per_socket):
            m.put(f"sys/class/infiniband/mlx5_{number}/fw_ver", "28.39.1002\n")
            m.put(f"sys/class/net/ibs{number}/mtu", "4092\n")
        m.link("usr/lib/x86_64-linux-gnu/libibverbs.so.1", "libibverbs.so.1.14.39.0")
        m.link("usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.21.5")
        return m

    def roce(self):
        m = self.infiniband()
        for number in range(4):
            m.roce(f"mlx5_{number}", f"ibs{number}")
        return m

    def pair(self, a, b, *args):
        """The JSON of doctor --pair, and its rows that are not "same": (fact, verdict)."""
        done = run("doctor", "--pair", "--json", *args, a, b)
        self.assertEqual(done.stderr, "")
        told = json.loads(done.stdout)
        conforms(told, SCHEMA)
        self.assertEqual(done.returncode, CODES[told["verdict"]])
        rows = told["facts"] + [fact for rail in told["rails"] for fact in rail["facts"]]
        for row in rows:
            if row["verdict"] in ("slow", "broken"):
                self.assertTrue(row["consequence"] and row["remedy"], row)
        return told, [(row["fact"], row["verdict"]) for row in rows if row["verdict"] != "same"]

    def differ(self, make, edit, expected, code):
        """B differs in what edit does, and in nothing else; and so does A, the other way round."""
        a, b = make(), make()
        edit(b)
        for first, second in ((a, b), (b, a)):
            told, rows = self.pair(first.path, second.path)
            self.assertEqual((sorted(set(rows)), CODES[told["verdict"]]), (sorted(expected), code))
        text = run("doctor", "--pair", a.path, b.path)
        self.assertEqual(text.returncode, code)
        for fact, verdict in expected:
            self.assertRegex(text.stdout, rf"(?m)^  {fact} .* {verdict}$")
        return run("doctor", "--pair", a.path, b.path).stdout

    # ---- what fits

    def test_equal(self):
        for make in (self.infiniband, self.roce):
            a, b = make(), make()
            told, rows = self.pair(a.path, b.path)
            self.assertEqual((rows, told["verdict"], told["a"]["verdict"]), ([], "same", "ok"))
            self.assertEqual([(rail["a"]["gpu"], rail["a"]["device"], rail["b"]["device"]) for rail in told["rails"]],
                             [("GPU0", "mlx5_0", "mlx5_0"), ("GPU1", "mlx5_2", "mlx5_2"), (None, "mlx5_1", "mlx5_1"),
                              (None, "mlx5_3", "mlx5_3")])
            text = run("doctor", "--pair", a.path, b.path).stdout
            self.assertTrue(text.endswith("\nThe machines fit each other.\n"), text)
        self.assertIn(("RoCE v2 GID", "index 3, IPv4-mapped"), [(row["fact"], row["a"]) for row in told["rails"][0]["facts"]])

    def test_bundles(self):
        """Of the machines, bundles: the same facts, from one file each."""
        a, b = self.roce(), self.roce()
        b.roce("mlx5_0", "ibs0", mtu=1500, gids=((1, "link-local"),), pfc=())
        files = []
        for m in (a, b):
            files.append(self.folder() + "/m.tar")
            self.assertEqual(run("doctor", "--bundle", files[-1], root=m.path).returncode, 0)
            piped = subprocess.run([COMMAND, "doctor", "--bundle", "-", "--root", m.path], capture_output=True, check=True).stdout
            with open(files[-1], "rb") as file:
                self.assertEqual(piped, file.read())
        told, rows = self.pair(*files)
        self.assertEqual(rows, self.pair(a.path, b.path)[1])
        self.assertEqual({fact for fact, _ in rows}, {"MTU of the interface", "RoCE v2 GID", "priorities with PFC"})
        # What differs in them is a difference of --compare, too.
        compared = json.loads(run("doctor", "--compare", "--json", *files).stdout)["differences"]
        self.assertIn("/sys/class/net/ibs0/mtu", [d.get("path") for d in compared])

    def test_piped(self):
        """Not to a terminal, and not cut off without a word."""
        a = self.infiniband().path
        ours, terminal = os.openpty()
        for to, words in ((terminal, "not for a terminal"), (os.open("/dev/full", os.O_WRONLY), "standard output: No space left")):
            done = subprocess.run([COMMAND, "doctor", "--bundle", "-", "--root", a], stdout=to, stderr=subprocess.PIPE, text=True, check=False)
            os.close(to)
            self.assertEqual(done.returncode, 64)
            self.assertIn(words, done.stderr)
        os.close(ours)

    def test_spare(self):
        """An adapter that no GPU needs: down on both sides is nothing, on one it is bandwidth that is missing."""
        a, b = self.infiniband(), self.infiniband()
        for m in (a, b):
            m.port_of("mlx5_1", state="1: DOWN")
        self.assertEqual(self.pair(a.path, b.path)[1], [])
        b.port_of("mlx5_1")
        told, rows = self.pair(a.path, b.path)
        self.assertEqual((rows, told["verdict"]), ([("active ports", "slow")], "slow"))

    def test_alike(self):
        """Rails that are alike are one table, with their names."""
        text = run("doctor", "--pair", *[self.infiniband(4).path for _ in "ab"]).stdout
        self.assertEqual(text.count("link layer"), 2)
        self.assertIn("and 4 more:\n", text)

    # ---- one difference each

    def test_layer(self):
        text = self.differ(self.infiniband, lambda m: m.port_of("mlx5_0", link_layer="Ethernet"), [("link layer", "broken")], 1)
        self.assertIn("do not speak the same protocol", text)
        self.differ(self.roce, lambda m: m.put("sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n"), [("link layer", "broken")], 1)

    def test_ports(self):
        def down(m):
            for name in ("mlx5_0", "mlx5_1"):       # else the other one is the nearest that is up
                m.port_of(name, state="1: DOWN")
        self.differ(self.infiniband, down, [("active ports", "broken"), ("active ports", "slow")], 1)
        a, b = self.infiniband(), self.infiniband()
        down(a), down(b)
        told, rows = self.pair(a.path, b.path)
        self.assertEqual((rows, told["verdict"]), ([("active ports", "broken")], "broken"))

        def second(m):
            for file, text in (("state", "4: ACTIVE"), ("link_layer", "InfiniBand"), ("rate", "400 Gb/sec (4X NDR)")):
                m.put(f"sys/class/infiniband/mlx5_0/ports/2/{file}", text + "\n")
        self.differ(self.infiniband, second, [("active ports", "slow")], 2)

    def test_rate(self):
        self.differ(self.infiniband, lambda m: m.port_of("mlx5_0", rate="200 Gb/sec (4X HDR)"), [("rate", "slow")], 2)
        self.differ(self.infiniband, lambda m: m.port_of("mlx5_0", rate="400 Gb/sec (8X HDR)"), [("rate", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.remove("sys/class/infiniband/mlx5_0/ports/1/rate"), [("rate", "cannot tell")], 3)

    def test_mtu(self):
        text = self.differ(self.roce, lambda m: m.put("sys/class/net/ibs0/mtu", "1500\n"), [("MTU of the interface", "slow")], 2)
        self.assertRegex(text, r"carry 1024 bytes of\s+4096")
        self.differ(self.roce, lambda m: m.put("sys/class/net/ibs0/mtu", "9216\n"), [("MTU of the interface", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.put("sys/class/net/ibs0/mtu", "65520\n"), [("MTU of the interface", "differs")], 0)

    def test_mtu_of_vlan(self):
        """The interface that has the address, not the one below it."""
        def vlan(m):
            for index in range(4):
                m.put(f"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/{index}", "vlan7\n")
            m.put("sys/class/net/vlan7/mtu", "1500\n")
        self.differ(self.roce, vlan, [("MTU of the interface", "slow")], 2)

    def test_gids(self):
        text = self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", gids=()), [("RoCE v2 GID", "broken")], 1)
        self.assertIn("none, RoCE v1 only", text)
        text = self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", gids=((1, "link-local"),)), [("RoCE v2 GID", "broken")], 1)
        self.assertIn("A: IPv4-mapped, B: link-local", " ".join(text.split()))
        text = self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", gids=((1, "link-local"), (2, "IPv4-mapped"))),
                           [("RoCE v2 GID", "differs")], 0)
        self.assertIn("NCCL_IB_GID_INDEX", text)
        self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", gids=((3, None),)), [("RoCE v2 GID", "cannot tell")], 3)

    def test_old_bundle(self):
        """Of a release that read some types of GIDs, and no kinds: that none is of RoCE v2 cannot be told."""
        def old(m):
            m.remove("gid-kinds.tsv")
            for number in range(4):
                for index in range(4):
                    m.put(f"sys/class/infiniband/mlx5_{number}/ports/1/gid_attrs/types/{index}", "")
        self.differ(self.roce, old, [("RoCE v2 GID", "cannot tell")], 3)

    def test_priorities(self):
        self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", pfc=()), [("priorities with PFC", "slow")], 2)
        self.differ(self.roce, lambda m: m.roce("mlx5_0", "ibs0", trust=("pcp",)), [("priorities are taken from", "slow")], 2)
        self.differ(self.roce, lambda m: m.remove("commands/dcb-pfc-ibs0"), [("priorities with PFC", "cannot tell")], 0)
        for text in ("", "{}", '{"prio_pfc":[true]}', '{"prio_pfc":[true,true,true,true,true,true,true,1]}', '{"prio_pfc":',
                     '{"prio_pfc":[false,false,false,false,false,false,false,false,false]}'):
            self.differ(self.roce, lambda m, text=text: m.put("commands/dcb-pfc-ibs0", text), [("priorities with PFC", "cannot tell")], 0)
        # Not known on one side, and not decisive by itself.
        self.differ(self.roce, lambda m: m.remove("commands/dcb-apptrust-ibs0"), [("priorities are taken from", "cannot tell")], 0)

    def test_releases(self):
        self.differ(self.infiniband, lambda m: m.put("sys/class/infiniband/mlx5_0/fw_ver", "28.40.1000\n"), [("firmware", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.link("usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.18.1"), [("NCCL", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.link("usr/lib/x86_64-linux-gnu/libibverbs.so.1", "libibverbs.so.1.15.0"),
                    [("libibverbs", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.nvidia("570.86.10"), [("GPU driver", "differs")], 0)
        self.differ(self.infiniband, lambda m: m.module("mlx5_core", "25.01"), [("RDMA stack", "differs")], 0)

    def test_counts(self):
        def fewer(m):
            for address in ("0000:93:00.0", "0000:94:00.0", "0000:95:00.0"):
                os.unlink(f"{m.path}/sys/bus/pci/devices/{address}")
            for number in (2, 3):
                os.rename(f"{m.path}/sys/class/infiniband/mlx5_{number}", f"{m.path}/gone{number}")
        self.differ(self.infiniband, fewer, [("GPUs", "slow"), ("RDMA adapters", "slow"), ("rails with a GPU", "slow")], 2)

        def none(m):
            for address in ("0000:14:00.0", "0000:15:00.0", "0000:94:00.0", "0000:95:00.0"):
                os.unlink(f"{m.path}/sys/bus/pci/devices/{address}")
            for number in range(4):
                os.rename(f"{m.path}/sys/class/infiniband/mlx5_{number}", f"{m.path}/gone{number}")
        self.differ(self.infiniband, none, [("RDMA adapters", "broken"), ("rails with a GPU", "slow")], 1)

    def test_assignment(self):
        """GPU0's nearest adapter is another, because the first one's port is down: of the two, the rails cross."""
        text = self.differ(self.infiniband, lambda m: m.port_of("mlx5_0", state="1: DOWN"),
                           [("adapter of each GPU", "slow"), ("active ports", "slow")], 2)
        self.assertRegex(text, r"adapter of each GPU +0 2 +1 2 +slow")

    def test_ways(self):
        """dma-buf here, peer memory there: it works, and is said.  In no way on one side: it does not."""
        def dmabuf_only(m):
            m.remove("sys/kernel/mm/memory_peers/nv_mem/version")
            os.rmdir(m.path + "/sys/kernel/mm/memory_peers/nv_mem")
            m.remove("sys/module/nvidia_peermem/version")
            os.rmdir(m.path + "/sys/module/nvidia_peermem")

        def peermem_only(m):
            m.nvidia(opened=False)
        a, b = self.infiniband(), self.infiniband()
        dmabuf_only(a)
        peermem_only(b)
        told, rows = self.pair(a.path, b.path)
        self.assertEqual((set(rows), told["verdict"]), ({("the GPU's memory goes by", "differs"), ("GPU driver", "differs")}, "differs"))
        row = [row for row in told["rails"][0]["facts"] if row["verdict"] == "differs"][0]
        self.assertEqual((row["a"], row["b"]), ("dma-buf", "peer memory"))
        self.assertIn("no way works on both", row["consequence"])
        dmabuf_only(b)
        told, rows = self.pair(a.path, b.path)
        self.assertEqual((told["verdict"], ("the GPU's memory goes by", "broken") in rows), ("broken", True))

    def test_virtual(self):
        self.differ(self.infiniband, lambda m: m.cpu(flags="fpu sse2 hypervisor"), [("machine", "differs")], 0)

    # ---- no bundles

    def refused(self, *args, words, code=64):
        place = self.folder()
        done = run("doctor", "--pair", *args, env={"TMPDIR": place})
        self.assertEqual((done.returncode, done.stdout, os.listdir(place)), (code, "", []), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_usage(self):
        a = self.infiniband().path
        for args, word in (([], "give two bundles, A and B, or a host"), ([a, a, a], "not expected"), (["--all", a, a], "--pair goes with"),
                           (["--need", "rdma", a, a], "--pair goes with"), (["--compare", a, a], "--pair goes with"),
                           (["--rsh", "x", a, a], "with two bundles"), (["--probe", a, a], "with two bundles"),
                           (["--probe", "--root", a, "h"], "what was captured cannot be probed"), (["--pair-serve", "h"], "goes with no other"),
                           (["--timeout", "1", a, a], "with two bundles"),
                           (["--root", a, a, a], "with two bundles"), (["--timeout", "0", "h"], "give seconds"),
                           (["--timeout", "x", "h"], "give seconds"), ([a], "is a file"), (["m.tar"], "is a file"),
                           (["--rsh", " ", "h"], "--rsh: give a command"), (["--rsh", "x " * 100, "h"], "--rsh: give a command"),
                           ([""], "name is empty"), (["--", "-oProxyCommand=x"], "does not begin with '-'"),
                           (["--rsh", "true", "--", "-x"], "does not begin with '-'")):
            self.refused(*args, words=[word])
        for args in (["--rsh", "x"], ["--timeout", "1"]):
            done = run("doctor", *args)
            self.assertEqual(done.returncode, 64)
            self.assertIn("go with --pair HOST only", done.stderr)
        for args in (["--json"], ["--root", a], ["GPU0", "NIC0"], ["--probe"]):
            done = run("doctor", "--pair-serve", *args)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn("--pair-serve goes with no other option", done.stderr)
        for args in (["--all"], ["--json"]):
            done = run("doctor", "--bundle", "-", *args)
            self.assertEqual((done.returncode, done.stdout), (64, ""))

    def test_bad_bundles(self):
        a, folder = self.infiniband().path, self.folder()
        with open(folder + "/text", "w", encoding="utf-8") as file:
            file.write("text")
        for name, word in (("none", "No such file"), ("text", "not a whole bundle")):
            self.refused(a, f"{folder}/{name}", words=[word, f"{folder}/{name}"])
            self.refused(f"{folder}/{name}", a, words=[word])
        self.refused("", a, words=["the path is empty"])

    def test_damaged(self):
        """What decides, replaced by rubbish, a fixed series of it: never taken for text that is fit to print, nor for facts."""
        chance = random.Random(SEED)
        a = self.roce()
        for turn in range(8):
            b = self.roce()
            files = sorted(os.path.join(at, name) for part in ("sys/class", "commands", "proc/driver") for at, _, names in
                           os.walk(f"{b.path}/{part}") for name in names) + [b.path + "/gid-kinds.tsv"]
            for path in chance.sample(files, 20) + files[-1:]:
                with open(path, "rb") as file:
                    text = bytearray(file.read())
                for _ in range(chance.randint(1, 4)):
                    at = chance.randrange(len(text) + 1)
                    text[at:at + chance.randint(0, 9)] = chance.choice(
                        [b"\xff\xfe", b"\0", b"\n", b"\t", b"99999999999999999999", b"-1", b"%s%n", b"\x1b[2J", b"A" * 300, b"/../"])
                with open(path, "wb") as file:
                    file.write(text)
            done = run("doctor", "--pair", *(["--json"] if turn % 2 else []), a.path, b.path)
            self.assertIn(done.returncode, (0, 1, 2, 3), (SEED, turn, done.stderr))
            self.assertNotIn("\x1b", done.stdout)
            self.assertNotIn("Sanitizer", done.stderr)
            if turn % 2:
                conforms(json.loads(done.stdout), SCHEMA)

    # ---- another machine

    def shell(self, text):
        """A remote shell: what it is asked for is in its file "asked"."""
        folder = self.folder()
        with open(folder + "/rsh", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nfor word; do echo "$word"; done >{folder}/asked\n{text}\n')
        os.chmod(folder + "/rsh", stat.S_IRWXU)
        return folder

    def bundle(self, m):
        file = self.folder() + "/m.tar"
        run("doctor", "--bundle", file, root=m.path)
        return file

    def test_host(self):
        """Asked for its bundle, by words that no shell on this side has seen."""
        here, there = self.roce(), self.roce()
        there.roce("mlx5_0", "ibs0", mtu=1500)
        place = self.shell(f"cat {self.bundle(there)}; exit 2")
        done = run("doctor", "--pair", "--json", "--rsh", place + "/rsh -x 'a  $HOME", "a;b", root=here.path)
        told = json.loads(done.stdout)
        conforms(told, SCHEMA)
        self.assertEqual((done.returncode, told["verdict"], told["b"]["name"], errors(done)), (2, "slow", "a;b", ""))
        with open(place + "/asked", encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), ["-x", "'a", "$HOME", "a;b", "peerdma", "doctor", "--bundle", "-"])
        done = run("doctor", "--pair", "--rsh", place + "/rsh exec -i %h --", "pod", root=here.path)
        self.assertEqual(done.returncode, 2)
        with open(place + "/asked", encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), ["exec", "-i", "pod", "--", "peerdma", "doctor", "--bundle", "-"])

    def test_ssh(self):
        """Without --rsh it is ssh, as the PATH has it."""
        here = self.infiniband()
        place = self.shell(f"cat {self.bundle(self.infiniband())}")
        os.rename(place + "/rsh", place + "/ssh")
        done = run("doctor", "--pair", "node2", root=here.path, env={"PATH": place + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, errors(done)), (0, ""))
        self.assertIn("B: node2: by itself ok\n", done.stdout)
        done = run("doctor", "--pair", "node2", root=here.path, env={"PATH": "/nowhere"})
        self.assertEqual((done.returncode, done.stderr), (64, "peerdma: doctor: ssh: No such file or directory\n"))

    def test_this_machine(self):
        """The command itself at both ends: this machine, as it is, beside itself."""
        place = self.shell(f'shift 2; exec {COMMAND} "$@"')
        done = run("doctor", "--pair", "--json", "--rsh", place + "/rsh", "localhost")
        self.assertIn(done.returncode, (0, 1, 3), done.stderr)
        if done.stdout:
            told = json.loads(done.stdout)
            conforms(told, SCHEMA)
            self.assertFalse([row for row in told["facts"] if row["verdict"] in ("differs", "slow")])

    def test_probe_misbehaving(self):
        """The other end of the probe is none: said, and ended.  test_pair_probe.c has what it may say later."""
        for text, word in (("echo hello", "greets with 'hello', not with 'peerdma-pair 1'"), (":", "the other machine has ended"),
                           ("printf peerdma-pair", "cut off"), ("head -c 1000 /dev/zero | tr '\\0' a", "too long"),
                           ("echo peerdma-pair 2; exec sleep 100", "greets with 'peerdma-pair 2'")):
            place = self.shell(f'[ "$4" != --pair-serve ] || {{ {text}; exit; }}; shift; PATH={os.path.dirname(COMMAND)}:$PATH; exec "$@"')
            begin = time.monotonic()
            done = run("doctor", "--pair", "--probe", "--json", "--rsh", place + "/rsh", "node2")
            self.assertIn(done.returncode, (1, 3), done.stderr)         # this machine may have no adapter
            self.assertIn(word, done.stderr)
            self.assertEqual(json.loads(done.stdout)["moved"], [])
            self.assertLess(time.monotonic() - begin, 30)

    def test_probe_served(self):
        """By the command itself."""
        place = self.shell(f'shift; PATH={os.path.dirname(COMMAND)}:$PATH; exec "$@"')
        done = run("doctor", "--pair", "--probe", "--rsh", place + "/rsh", "node2")
        self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr)
        self.assertEqual(errors(done), "")

    def test_misbehaving(self):
        """Rubbish, nothing, half a bundle, a wrong one, no end, too much, failures: each is said, and nothing is left."""
        here, whole = self.infiniband().path, self.bundle(self.infiniband())
        packed = whole + ".gz"
        with tarfile.open(whole) as tar, tarfile.open(packed, "w:gz") as out:
            for member in tar.getmembers():
                out.addfile(member, tar.extractfile(member))
        size = os.path.getsize(whole)
        with tarfile.open(whole) as tar:
            last = tar.getmembers()[-1].offset
        for text, words in (
                ("echo 'Welcome \033[2J!'", ["printed no bundle but 'Welcome \\x1b[2J!'"]), (":", ["printed nothing"]),
                ("head -c 100000 /dev/urandom", ["printed no bundle but"]),
                # A character of two bytes where the text is cut.
                (r"printf '\001%075d\303\251' 0", ["printed no bundle but"]),
                (f"head -c {size // 2 // 512 * 512} {whole}", ["not a whole bundle"]), (f"head -c {last} {whole}", ["not a whole bundle"]),
                (f"head -c 1000 {whole}", ["not a whole bundle"]), (f"cat {packed}", ["printed no bundle"]),
                (f"cat {whole}; exit 5", ["failed with code 5"]), ("exit 255", ["failed with code 255"]),
                ("exit 127", ["failed with code 127", "is peerdma installed there"]), (f"cat {whole}; exit 64", ["failed with code 64"]),
                ("kill -9 $$", ["ended by signal 9"]), ("exec cat /dev/zero", ["gives more than 64 MiB"])):
            with self.subTest(text=text):
                self.refused("--rsh", self.shell(text) + "/rsh", "node2", "--root", here, words=["peerdma: doctor: node2: ", *words])

    def test_no_end(self):
        """Ended at the time limit: whether it prints, waits, ignores SIGTERM, or keeps its output open behind a child."""
        here, whole = self.infiniband().path, self.bundle(self.infiniband())
        for text in ("exec sleep 100", f"head -c 5000 {whole}; exec sleep 100", f"cat {whole}; exec >&-; exec sleep 100",
                     "trap '' TERM; while :; do sleep 1; done", "sleep 4 & exit 0"):
            with self.subTest(text=text):
                begin = time.monotonic()
                self.refused("--rsh", self.shell(text) + "/rsh", "--timeout", "1", "node2", "--root", here,
                             words=["has not ended after 1 s"])
                self.assertLess(time.monotonic() - begin, 30)

    def test_progress(self):
        """A wait of more than two seconds is said, on standard error."""
        place = self.shell(f"sleep 2.5; cat {self.bundle(self.infiniband())}")
        done = run("doctor", "--pair", "--rsh", place + "/rsh", "node2", root=self.infiniband().path)
        self.assertEqual((done.returncode, errors(done)), (0, ""))
        self.assertRegex(done.stderr, "^peerdma: doctor: node2: waiting for its bundle, [0-9]+ s\n")


if __name__ == "__main__":
    sys.exit(unittest.main())
