#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nvidia-smi, on softgpu's library and on a stand-in that has everything.

usage: test_smi.py NVIDIA-SMI FOLDER-OF-SOFTGPU FOLDER-OF-STAND-IN

The forms of lines are those that NVIDIA's command of driver 580 prints on an H200."""

import os
import re
import subprocess
import sys

command, softgpu, fake = sys.argv[1:]
failed = False


def run(folder, *args, **env):
    environment = {k: v for k, v in os.environ.items() if k not in ("SOFTGPU_INPROCESS", "LD_LIBRARY_PATH")}
    environment.update(env, LD_LIBRARY_PATH=folder, TZ="UTC")
    done = subprocess.run([command, *args], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def check(ok, what, seen=""):
    global failed
    if not ok:
        failed = True
        print(f"not ok - {what}\n{seen}")


def prints(folder, args, rc, *lines, **env):
    """The exit code, and that the output has these lines."""
    got, out, err = run(folder, *args.split(" "), **env)
    check(got == rc, f"{args}: exit code {got}, not {rc}", out + err)
    for line in lines:
        check(line in out.split("\n"), f"{args} does not print: {line}", out)
    return out


def is_out(folder, args, expected, **env):
    got, out, _ = run(folder, *args.split(" "), **env)
    check((got, out) == (0, expected), f"{args}: exit code {got}, prints", out)


# ---- the stand-in: each form of value

is_out(fake, "-L", "GPU 0: Example GPU 9000 (UUID: GPU-0)\nGPU 1: Example GPU 9000 (UUID: GPU-1)\n")
is_out(fake, "--query-gpu=index,gpu_name,memory.total,memory.reserved,memory.used,memory.free,clocks.sm,clocks.mem,power.draw,pstate"
       " --format=csv -i 0",
       "index, name, memory.total [MiB], memory.reserved [MiB], memory.used [MiB], memory.free [MiB], clocks.current.sm [MHz],"
       " clocks.current.memory [MHz], power.draw [W], pstate\n"
       "0, Example GPU 9000, 143771 MiB, 616 MiB, 3 MiB, 143152 MiB, 401 MHz, 402 MHz, 115.00 W, P2\n")
is_out(fake, "--query-gpu=temperature.gpu,utilization.gpu,utilization.memory,ecc.mode.current,ecc.mode.pending,mig.mode.current,"
       "compute_mode,compute_cap,pci.bus_id,pci.device_id,pci.domain,pci.bus,serial,fan.speed,enforced.power.limit"
       " --format=csv,noheader",
       "38, 70 %, 12 %, Enabled, Disabled, Disabled, Default, 9.0, 00000001:02:00.0, 0x123410DE, 0x0001, 0x02, 1234567890123, 30 %, 550.50 W\n"
       "38, 70 %, 12 %, Enabled, Disabled, Disabled, Exclusive_Process, 9.0, 00000001:03:00.0, 0x123410DE, 0x0001, 0x03, 1234567890123,"
       " 30 %, 550.50 W\n")
is_out(fake, "--query-gpu=memory.total,driver_version,count --format=csv,noheader,nounits --id=GPU-1", "143771, 580.100.01, 2\n")
is_out(fake, "--query-gpu=uuid --format=csv,noheader -i 0001:02:00.0,1", "GPU-0\nGPU-1\n")
is_out(fake, "--query-gpu=fabric.state,temperature.memory --format=csv -i 0", "fabric.state, temperature.memory\n[N/A], [N/A]\n")
is_out(fake, "--query-compute-apps=pid,name,used_memory,gpu_uuid --format=csv",
       "pid, process_name, used_gpu_memory [MiB], gpu_uuid\n4711, train, 512 MiB, GPU-0\n")
is_out(fake, "--query-compute-apps=pid,used_memory --format=csv,noheader,nounits", "4711, 512\n")
is_out(fake, "--version", "NVIDIA-SMI version  : 580.100.01 (softgpu 0.1.0)\nNVML version        : 580.100.01\n"
       "DRIVER version      : 580.100.01\nCUDA Version        : 13.0\n")
is_out(fake, "nvlink -s", "GPU 0: Example GPU 9000 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n")
prints(fake, "-i 0", 0,
       "| NVIDIA-SMI 580.100.01             Driver Version: 580.100.01     CUDA Version: 13.0     |",
       "|   0  Example GPU 9000               On  |   00000001:02:00.0 Off |                  N/A |",
       "| 30%   38C    P2            115W /  550W |       3MiB / 143771MiB |     70%      Default |",
       "|                                         |                        |             Disabled |",
       "|    0   N/A  N/A             4711      C   train                                  512MiB |")
out = run(fake)[1]
check("|     70%   E. Process |" in out, "the compute mode", out)
check({len(line) for line in out.rstrip("\n").split("\n")[1:] if line} == {91}, "the table is not even", out)
prints(fake, "-q -i 0", 0, "Attached GPUs                                          : 2", "GPU 00000001:02:00.0",
       "    Product Name                                       : Example GPU 9000", "    FB Memory Usage",
       "        Total                                          : 143771 MiB",
       "                Current                                : 8x",
       "        GPU Current Temp                               : 38 C")
out = prints(fake, "-q -d MEMORY", 0, "    BAR1 Memory Usage")
check("Temp" not in out and "Product" not in out, "-d MEMORY prints more", out)

# ---- softgpu: the name says what it is, and nothing is invented

inprocess = {"SOFTGPU_INPROCESS": "1", "SOFTGPU_GPUS": "2"}
out = prints(softgpu, "-L", 0, **inprocess)
check(re.fullmatch(r"(GPU \d: softgpu \(in this process\) \(UUID: GPU-[0-9a-f-]{36}\)\n){2}", out), "-L", out)
is_out(softgpu, "--query-gpu=index,memory.total,temperature.gpu,power.draw,clocks.sm,utilization.gpu,pstate,mig.mode.current,compute_cap"
       " --format=csv,noheader -i 1", "1, 256 MiB, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], 10.0\n", **inprocess)
for driver, capability in ("560", "8.0"), ("580", "9.0"), ("610", "10.0"):
    is_out(softgpu, "--query-gpu=compute_cap --format=csv,noheader -i 0", f"{capability}\n",
           **inprocess, SOFTGPU_DRIVER=driver)
out = prints(softgpu, "topo -m", 0, "GPU0\t X \tN/A\tN/A\tN/A\t\tN/A", **inprocess)
is_out(softgpu, "nvlink -s", "", **inprocess)
out = prints(softgpu, "-q", 0, "    Product Name                                       : softgpu (in this process)",
             "        GPU Current Temp                               : N/A", **inprocess)
rc, out, err = run(softgpu, "--query-compute-apps=pid", "--format=csv", **inprocess)
check((rc, out) == (0, "pid\n") and "does not list processes" in err, "processes are said to be none", out + err)

# ---- errors

prints(softgpu, "--query-gpu=index,nosuch --format=csv", 2, 'Field "nosuch" is not a valid field to query.', **inprocess)
is_out(softgpu, "--query-gpu=index", "index\n0\n1\n", **inprocess)
is_out(softgpu, "--query-gpu=index --format=noheader -i 1,0,1", "1\n0\n", **inprocess)
prints(softgpu, "--query-gpu=index --format=csv,xml", 2, "Format modifier is not recognized.", **inprocess)
prints(softgpu, "-i 9", 6, "No devices were found", **inprocess)
is_out(softgpu, "--query-gpu=index --format=noheader -i 0,9,GPU-1", "0\n", **inprocess)
is_out(softgpu, "--query-gpu=index --format=noheader -i 0x1", "1\n", **inprocess)
prints(softgpu, "-i GPU-1,9", 6, "No devices were found", **inprocess)
prints(softgpu, "--id=", 255, "Failed to parse device string on command line", **inprocess)
prints(softgpu, "--nosuch", 255, "ERROR: Option --nosuch is not recognized. Please run 'nvidia-smi -h'.", **inprocess)
prints(softgpu, "-q -d NOSUCH", 2, "Failed to parse --display/-d flags", **inprocess)
prints(softgpu, "-d MEMORY", 2, **inprocess)
# an option without its value, one that belongs to no query, and such as a command does not take
for args in "-i", "-d", "-f", "-q -d", "--query-gpu":
    prints(softgpu, args, 255, f"ERROR: Option {args[-2:] if len(args) < 6 else args} is missing its value."
           " Please run 'nvidia-smi -h' for help.", **inprocess)
prints(softgpu, "--format=csv", 255, "ERROR: Option --format=csv is not recognized. Please run 'nvidia-smi -h'.", **inprocess)
for args, word in (("-L -i 0", "-i"), ("-i 9 -L", "-i"), ("-L -q", "-q"), ("-L extra", "extra"), ("-h -L", "-L"), ("-L -h", "-L"),
                   ("--version -L", "-L"), ("-l 1 -L", "-l"), ("-L --query-gpu=name", "--query-gpu=name"), ("-f /x -L", "-f")):
    prints(softgpu, args, 2, f"ERROR: Option {word} is not valid for this command. Please run 'nvidia-smi -h' for help.", **inprocess)
prints(softgpu, "-q --query-gpu=name", 2, "ERROR: Option -q is not recognized. Please run 'nvidia-smi -h' for help.", **inprocess)
is_out(softgpu, "--query-gpu=,index, --format=csv -i 0", "index\n0\n", **inprocess)
is_out(softgpu, "--query-gpu= --format=csv", "\n\n\n", **inprocess)
prints(softgpu, "topo -z", 2, 'Option "-z" is not recognized.', **inprocess)
for args in "topo -m -i 7", "nvlink -s -i 7":
    prints(softgpu, args, 6, "No devices were found", **inprocess)
prints(softgpu, "topo -m -z", 2, 'Option "-z" is not recognized.', **inprocess)
for args in "topo", "nvlink", "topo -i 0":
    check("nvidia-smi " + args.split(" ", maxsplit=1)[0] in prints(softgpu, args, 0, **inprocess), f"{args}: no usage")
prints(softgpu, "-f /nowhere/file", 2, **inprocess)
# what cannot be printed is an error, also if the caller has closed stdout
for args in "-h", "-L", "--version", "--query-gpu=name", "topo -m", "--help-query-gpu":
    for out in ">/dev/full", ">&-", ">&- <&-":
        done = subprocess.run(f"'{command}' {args} {out}", shell=True, timeout=60, check=False,
                              env=os.environ | inprocess | {"LD_LIBRARY_PATH": softgpu})
        check(done.returncode == 255, f"{args} {out}: exit code {done.returncode}")
if not any(name.startswith("softgpu") for name in os.listdir("/dev")):
    check("no driver" in prints(softgpu, "-L", 9), "without a driver, the text does not say so")
prints("/nowhere", "-L", 12)
check("not permitted" in prints(fake, "-L", 4, FAKE_NVML_INIT="4"), "a refusal does not have the library's text")
prints(fake, "-L", 255, FAKE_NVML_INIT="999")
prints("/nowhere", "-h", 0)

# -l without a number does not take the next option for one
looping = subprocess.Popen([command, "-l", "--query-gpu=index", "--format=noheader", "-i", "1"], stdout=subprocess.PIPE, text=True,
                           env=os.environ | inprocess | {"LD_LIBRARY_PATH": softgpu})
check(looping.stdout.readline() == "1\n", "-l takes the next option for its number")
looping.kill()
looping.wait()

# ---- every field that the help lists can be queried

fields = re.findall(r'^"([\w.]+)"', prints("/nowhere", "--help-query-gpu", 0), re.M)
check(len(fields) > 200, f"{len(fields)} fields")
rc, out, _ = run(softgpu, "--query-gpu=" + ",".join(fields), "--format=csv", "-i", "0", **inprocess)
check(rc == 0 and all(line.count(", ") == len(fields) - 1 for line in out.rstrip("\n").split("\n")), "all fields at once", out)
check("process_name" in prints("/nowhere", "--help-query-compute-apps", 0), "the fields of processes")

print("not ok" if failed else "ok")
sys.exit(failed)
