#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A week of each of some machines, for promtool test rules: the alerts are silent on those in order, and fire on the others.

usage: week.py COMMAND FOLDER >TESTS; the machines are made in FOLDER."""

import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "doctor"))
import machines                               # noqa: E402

WEEK = 7 * 24
ALERTS = ("PeerdmaBroken", "PeerdmaSlow", "PeerdmaCannotTell", "PeerdmaBar1NearlyFull", "PeerdmaUserNearLimit", "PeerdmaRevocations", "PeerdmaCacheFailures",
          "PeerdmaCacheMisses", "PeerdmaSourceUnreadable")


def ethernet(m):
    """Adapters that have no RDMA, beside the GPUs or alone."""
    for address in [a for a, p in m.where.items() if os.path.isdir(f"{m.path}/sys/devices/{p}/infiniband")]:
        shutil.rmtree(f"{m.path}/sys/devices/{m.where[address]}/infiniband")
        m.put_device(address, "vendor", "0x8086\n")
    shutil.rmtree(m.path + "/sys/class/infiniband")


def no_driver(m):
    os.unlink(f"{m.path}/sys/devices/{m.where[m.gpus[0]]}/driver")


def ports_down(m):
    for name in os.listdir(m.path + "/sys/class/infiniband"):
        m.port_of(name, "1: DOWN", "2: Polling")


def no_way(m):
    """Proprietary modules, and no client: neither dma-buf nor peer memory."""
    m.nvidia(opened=False)
    shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
    shutil.rmtree(m.path + "/sys/kernel/mm")


def bar_without_address(m):
    m.bars(m.gpus[0], (2, machines.GIB, 0x14220c | machines.UNSET))


# What is done to a server; the alerts that fire.
CASES = {
    "healthy": (lambda m: None, ()),
    "ethernet": (ethernet, ()),
    "one-port-down": (lambda m: m.port_of("mlx5_0", "1: DOWN"), ()),
    "service-limits": (lambda m: m.limits(memlock=65536, nofile=512), ()),
    "translating": (lambda m: m.iommu("DMA"), ("PeerdmaSlow",)),
    "redirecting": (lambda m: m.put_device("0000:12:00.0", "config", machines.config(6, machines.REDIRECT)), ("PeerdmaSlow",)),
    "unknown-processor": (lambda m: m.put("proc/cpuinfo", "CPU implementer\t: 0x41\n"), ("PeerdmaCannotTell",)),
    "no-driver": (no_driver, ("PeerdmaBroken",)),
    "ports-down": (ports_down, ("PeerdmaBroken",)),
    "no-way": (no_way, ("PeerdmaBroken",)),
    "bar": (bar_without_address, ("PeerdmaBroken",)),
    "bar1-full": (lambda m: m.nvml(used=250 * machines.GIB), ("PeerdmaBroken", "PeerdmaBar1NearlyFull")),
}


def series(command, m, instance):
    done = subprocess.run([command, "metrics", "--format", "prometheus", "--root", m.path], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"(peerdma_\w+)(?:\{(.*)\})? (\d+)", line)
        if match:
            labels = f'job="node",instance="{instance}"' + (f",{match[2]}" if match[2] else "")
            yield f"{match[1]}{{{labels}}}", match[3]


def main(command, folder):
    print("rule_files:\n  - peerdma.rules.yml\nevaluation_interval: 30m\ntests:")
    for name, (change, fired) in CASES.items():
        m = machines.server(os.path.join(folder, name), per_socket=1)
        change(m)
        print("  - interval: 5m\n    input_series:")
        for key, value in series(command, m, name):
            print(f"      - series: {json.dumps(key)}\n        values: '{value}x{WEEK * 12}'")
        print("    promql_expr_test:")
        for alert in ALERTS:
            # How many samples of the week at which it fires, with all its labels.
            expression = f'count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[{WEEK}h])'
            wanted = f"{WEEK}" if alert in fired else None
            print(f"      - expr: 'count({expression} > {WEEK if wanted else 0}) > bool 0'\n        eval_time: {WEEK}h")
            print("        exp_samples:" + ("\n          - labels: '{}'\n            value: 1" if wanted else " []"))


if __name__ == "__main__":
    main(*sys.argv[1:])
