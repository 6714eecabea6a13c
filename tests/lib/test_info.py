#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma info` in processes that are started in several ways. tests/outputs has what it prints of a made-up library."""

import glob
import json
import os
import re
import resource
import subprocess
import sys
import unittest

COMMAND = os.path.abspath(sys.argv.pop(1))
CUDA = os.path.abspath(sys.argv.pop(1))         # the folder of softgpu's libcuda.so.1
HOOKS = sys.argv.pop(1)                         # libpeerdma-hooks, or "none"
STAND_INS = os.path.abspath(sys.argv.pop(1))    # the folder of a libcuda.so.1 and a libibverbs.so.1 that are stand-ins
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
MODULE = os.path.exists("/dev/peerdma")
OWN_MONITOR = "system calls of the C library"


def run(*args, env=None, **more):
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "COLUMNS": "9999", **(env or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return subprocess.run([COMMAND, "info", *args], capture_output=True, text=True, env=environment, timeout=60,
                          stdin=subprocess.DEVNULL, check=False, **more)


class Info(unittest.TestCase):
    def told(self, code, env=None, **more):
        """The JSON; and the text has the same states and reasons."""
        done = run("--json", env=env, **more)
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        told = json.loads(done.stdout)
        self.assertEqual(told["schema"], "peerdma-info/1")
        self.assertEqual(told["direct"], {0: True, 1: False, 2: None}[code])
        text = run(env=env, **more)
        self.assertEqual((text.returncode, text.stderr), (code, ""))
        lines = text.stdout.splitlines()
        for part in told["components"]:
            if part["type"] != "library":
                row = re.compile(re.escape(part["name"]) + r" +" + part["state"] + r" .*" + re.escape(part["why"]) + "$")
                self.assertTrue(any(map(row.match, lines)), (part, text.stdout))
        return told

    def part(self, told, kind, name):
        found = [part for part in told["components"] if (part["type"], part["name"]) == (kind, name)]
        self.assertEqual(len(found), 1, (kind, name))
        return found[0]

    def is_so(self, told, kind, name, state, why):
        part = self.part(told, kind, name)
        self.assertEqual(part["state"], state, part)
        self.assertIn(why, part["why"])
        return part

    def variable(self, told, name):
        found = [one for one in told["variables"] if one["name"] == name]
        self.assertEqual(len(found), 1, name)
        return found[0]

    @unittest.skipIf(MODULE, "this machine has the module")
    def test_nothing(self):
        """Neither a module nor CUDA. What is off has its reason."""
        told = self.told(1, {"PEERDMA_CUDA": "off"})
        self.is_so(told, "backend", "kernel", "off", "modprobe peerdma")
        self.is_so(told, "backend", "dmabuf", "off", "PEERDMA_CUDA=off")
        self.is_so(told, "backend", "host", "on", "locks host memory")
        self.is_so(told, "backend", "soft", "off", "PEERDMA_PROVIDER does not name it")
        self.is_so(told, "ipc", "host", "on", "decided per allocation")
        self.assertIsNone(told["by"])
        self.assertIsNone(told["module_version"])
        self.assertEqual(self.variable(told, "PEERDMA_CUDA")["state"], "on")
        self.assertIn("GPU memory itself cannot be pinned here", run(env={"PEERDMA_CUDA": "off"}).stdout)

    def test_versions(self):
        told = json.loads(run("--json").stdout)
        self.assertEqual(told["library_version"], told["header_version"])
        self.assertRegex(os.path.basename(told["library_file"]), r"^libpeerdma\.so\.")
        self.assertTrue(os.path.isabs(told["library_file"]))
        self.assertEqual(told["header_abi"], 1)

    def test_software_gpu(self):
        """One word in the environment is enough."""
        told = self.told(0, {"PEERDMA_PROVIDER": "soft"})
        self.assertEqual(told["by"], "soft")
        soft = self.is_so(told, "backend", "soft", "on", "cuInit()")
        self.assertEqual(os.path.dirname(soft["file"]), os.path.realpath(CUDA))
        self.is_so(told, "backend", "host", "on", "locks host memory")
        self.is_so(told, "backend", "kernel", "off", "PEERDMA_PROVIDER does not name it")
        self.assertEqual([part["name"] for part in told["components"] if part["type"] == "backend"][:2], ["soft", "host"])
        self.assertEqual(self.variable(told, "PEERDMA_PROVIDER")["value"], "soft")

    @unittest.skipIf(MODULE, "this machine has the module")
    def test_cuda(self):
        """A libcuda that is there: what it exports is not known before there is memory."""
        told = self.told(2, {"LD_LIBRARY_PATH": CUDA})
        self.assertEqual(told["by"], "dmabuf")
        cuda = self.is_so(told, "gpu", "cuda", "on", "once the program has called cuInit()")
        self.assertEqual(os.path.dirname(cuda["file"]), os.path.realpath(CUDA))
        self.assertRegex(cuda["version"], r"^CUDA \d+\.\d$")
        self.is_so(told, "backend", "dmabuf", "unknown", "decided per allocation")
        self.is_so(told, "backend", "staging", "unknown", "PEERDMA_STAGING")
        self.is_so(told, "ipc", "cuda", "on", "PEERDMA_IPC_I_UNEXPORT")
        self.assertTrue(next(one for one in told["libraries"] if one["name"] == "libcuda.so.1")["loaded"])

    @unittest.skipIf(MODULE, "this machine has the module")
    def test_lacking(self):
        """A libcuda without most functions, for example cuInit(), and a libibverbs: nothing of them is needed."""
        told = self.told(2, {"LD_LIBRARY_PATH": STAND_INS})
        self.is_so(told, "ipc", "cuda", "off", "has not loaded libcuda.so.1")
        verbs = self.is_so(told, "verbs", "libibverbs", "on", "MRs of dma-bufs can be made")
        self.assertEqual(os.path.dirname(verbs["file"]), os.path.realpath(STAND_INS))

    @unittest.skipIf(HOOKS == "none", "built with a sanitizer")
    def test_hooks(self):
        """Preloaded, with CUDA and without."""
        for more, why in (({"PEERDMA_CUDA": "off"}, None), ({"LD_LIBRARY_PATH": CUDA}, "GPU memory: reports every free")):
            told = json.loads(run("--json", env={"LD_PRELOAD": HOOKS, **more}).stdout)
            hooks = self.is_so(told, "monitor", "libpeerdma-hooks", "on", why or "GPU memory")
            self.assertEqual(hooks["file"], os.path.realpath(HOOKS))
            if why:
                self.assertNotIn("PEERDMA_IPC_I_UNEXPORT", self.part(told, "ipc", "cuda")["why"])
        told = json.loads(run("--json").stdout)
        self.is_so(told, "monitor", "libpeerdma-hooks", "off", "has not loaded libpeerdma-hooks")
        told = json.loads(run("--json", env={"LD_PRELOAD": f"{CUDA}/libcuda.so.1:{HOOKS}"}).stdout)
        self.is_so(told, "monitor", "libpeerdma-hooks", "off", "behind CUDA or HSA")

    @unittest.skipIf(HOOKS == "none", "built with a sanitizer")
    def test_intercepted(self):
        """Which preloaded library has taken the place of which function."""
        self.assertEqual(json.loads(run("--json").stdout)["intercepted"], [])
        self.assertIn("\nINTERCEPTED\nno preloaded library intercepts calls for memory\n", run().stdout)
        other = f"{STAND_INS}/libintercepts.so"
        env = {"LD_PRELOAD": f"{HOOKS}:{other}", "LD_LIBRARY_PATH": CUDA}
        found = json.loads(run("--json", env=env).stdout)["intercepted"]
        self.assertEqual([one["call"] for one in found if one["file"] == other], ["munmap", "madvise"])
        for call in ("dlsym", "cuMemAlloc_v2", "cuMemFree_v2", "cuGetProcAddress_v2", "hsa_amd_memory_pool_free"):
            self.assertIn({"call": call, "file": HOOKS}, found)
        text = run(env=env).stdout
        self.assertIn(f"\n{other}\n  munmap, madvise\n", text)
        self.assertEqual(text.count(f"\n{HOOKS}\n"), 1)
        # A library that the program would have called anyway takes no place of another.
        found = json.loads(run("--json", env={"LD_PRELOAD": f"{CUDA}/libcuda.so.1"}).stdout)["intercepted"]
        self.assertEqual(found, [])

    def test_monitor(self):
        """Begun, so that it is decided."""
        told = json.loads(run("--json").stdout)
        self.assertIn(self.part(told, "monitor", OWN_MONITOR)["state"], ("on", "off"))
        self.assertEqual(self.part(told, "monitor", "ucm")["state"], "off")

    def test_no_back_end(self):
        """The reason although nothing could be opened."""
        env = {"PEERDMA_PROVIDER": "kernl,\x1b[31m"}
        told = self.told(1, env)
        for name in ("kernel", "dmabuf", "host", "staging", "soft"):
            self.is_so(told, "backend", name, "off", "PEERDMA_PROVIDER names 'kernl', which is no back-end")
        self.assertNotIn("\x1b", run(env=env).stdout)
        self.assertEqual(self.variable(told, "PEERDMA_PROVIDER")["value"], "kernl,\\x1b[31m")

    def test_environment(self):
        env = {"PEERDMA_PROVIDR": "kernel", "PEERDMA_CACHE": "of", "PEERDMA_COPY": "quickly", "PEERDMA_FAR_FROM_ALL": "\x1b[31m",
               "PEERDMA_CACHE_REPORT": ""}
        told = json.loads(run("--json", env=env).stdout)
        self.assertEqual(self.variable(told, "PEERDMA_PROVIDR"),
                         {"name": "PEERDMA_PROVIDR", "value": "kernel", "read": False, "state": "off", "why": None, "meant": "PEERDMA_PROVIDER"})
        self.assertEqual(self.variable(told, "PEERDMA_FAR_FROM_ALL")["meant"], None)
        self.assertEqual(self.variable(told, "PEERDMA_PROVIDER")["value"], None)
        for name, why in (("PEERDMA_CACHE", "the value has no meaning"), ("PEERDMA_COPY", "no such method")):
            self.assertEqual(self.variable(told, name)["state"], "off")
            self.assertIn(why, self.variable(told, name)["why"])
        text = run(env=env).stdout
        self.assertIn("PEERDMA_PROVIDR=kernel\n  unknown variable: libpeerdma does not read it; did you mean PEERDMA_PROVIDER?\n", text)
        self.assertIn("PEERDMA_FAR_FROM_ALL=\\x1b[31m\n  unknown variable: libpeerdma does not read it\n", text)
        self.assertIn("PEERDMA_CACHE=of\n  ignored: ", text)
        # "did you mean" never names what is set correctly.
        self.assertNotIn("unknown variable", run(env={"PEERDMA_CACHE": "off", "PEERDMA_HOOKS": "report"}).stdout)

    def test_all_variables(self):
        """Those that the sources of libpeerdma and its sister libraries read, and no others."""
        told = json.loads(run("--json").stdout)
        read = set()
        for folder in ("lib", "hooks", "preload"):
            for path in glob.glob(f"{TOP}/peerdma/{folder}/**/*.[ch]", recursive=True):
                with open(path, encoding="utf-8") as file:
                    source = file.read()
                got = re.findall(r"getenv\(([^)]*)\)", source)
                if path.endswith("base/variables.c"):
                    continue
                self.assertFalse(got and folder == "lib", path)         # by variable() only
                read |= {name.strip('"') for name in got}
        read |= {"PEERDMA_PROVIDER", "PEERDMA_CUDA", "PEERDMA_COPY", "PEERDMA_CACHE", "PEERDMA_CACHE_REPORT", "PEERDMA_MEMBARRIER"}
        self.assertEqual({one["name"] for one in told["variables"]}, read)

    def test_limits(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
            resource.setrlimit(resource.RLIMIT_NOFILE, (123, 123))

        settings = json.loads(run("--json", preexec_fn=limit).stdout)["settings"]
        self.assertEqual((settings["memlock"], settings["open_files"]), (65536, 123))
        self.assertEqual(settings["page_size"], os.sysconf("SC_PAGESIZE"))
        text = run(preexec_fn=limit).stdout
        self.assertIn("locked memory 64 KiB (RLIMIT_MEMLOCK)" + (", which does not apply" if settings["memlock_exempt"] else ""), text)

    def test_failed(self):
        self.assertEqual(run("more").returncode, 3)
        self.assertEqual(run("--root", "/").returncode, 3)
        with open("/dev/full", "w", encoding="utf-8") as full:
            for args in ((), ("--json",)):
                done = subprocess.run([COMMAND, "info", *args], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
                self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
