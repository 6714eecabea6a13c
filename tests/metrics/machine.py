# SPDX-License-Identifier: MIT
"""A machine with one of everything that `peerdma metrics` counts, as a folder. `machine.py DIR` writes it."""

import os
import sys

PINS = ("id pid comm client provider state flags addr length pinned_length page_shift mappings views exports "
        "first_phys generation segments devices uid handle").split()
ACCOUNTS = "uid pins mappings views exports aperture locked".split()
LIMITS = {"max_pins_per_user": 65536, "max_mappings_per_user": 0, "max_views_per_user": 16, "max_exports_per_user": 8,
          "max_aperture_mib_per_user": 64}
BASE, SIZE = 0xe0000000, 256 << 20


def pin(**changes):
    values = dict(id=1, pid=42, comm="train", client="user", provider="nvidia", state="live", flags="device",
                  addr="0x7f0000000000", length=65000, pinned_length=65536, page_shift=16, mappings=1, views=2,
                  exports=3, first_phys=hex(BASE), generation=5, segments=f"{BASE:#x}:65536", devices="0000:05:00.0:1",
                  uid=1000, handle=1)
    values.update(changes)
    return [values[name] for name in PINS]


def table(*rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


class Machine:
    def __init__(self, path):
        self.path = path

    def put(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self

    def pins(self, *rows):
        return self.put("sys/kernel/debug/peerdma/pins", table(PINS, *rows))

    def accounts(self, *rows):
        return self.put("sys/kernel/debug/peerdma/accounts", table(ACCOUNTS, *rows))

    def gpus(self, *rows):
        return self.put("nvml.tsv", table("index pci name uuid bar1_total bar1_used bar1_free".split(), *rows))

    def module(self):
        self.put("sys/module/peerdma/version", "0.1.0\n")
        for name, value in LIMITS.items():
            self.put("sys/module/peerdma/parameters/" + name, f"{value}\n")
        self.put("sys/kernel/debug/peerdma/stats",
                 table(("live", 2), ("pins", 12), ("unpins", 10), ("maps", 3), ("unmaps", 2), ("exports", 1),
                       ("late", 0), ("revocations", 7), ("faults", 4), ("flushes", 0)))
        return self.put("sys/kernel/debug/peerdma/users", table(("pid", "comm", "revocations"), (43, "serve", 5)))

    def whole(self):
        none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        self.module().put("sys/bus/pci/devices/0000:03:00.0/resource",
                          none + none + f"{BASE:#018x} {BASE + SIZE - 1:#018x} 0x000000000014220c\n" + 10 * none)
        self.gpus((0, "0000:03:00.0", "NVIDIA H200", "GPU-1", SIZE, 36 << 20, SIZE - (36 << 20)))
        self.accounts((1000, 2, 1, 2, 3, 65536, 4096), (1001, 0, 0, 0, 0, 0, 0))
        return self.pins(pin(), pin(id=2, pid=43, comm="serve", state="revoked", devices=""),
                         pin(id=3, provider="host", pinned_length=4096, segments="-", devices="0000:05:00.0:2,0000:06:00.0:1"))


if __name__ == "__main__":
    Machine(sys.argv[1]).whole()
