# SPDX-License-Identifier: MIT
"""One Ethernet between the network adapters of all guests.

Adapter N of guest G is ethN there and has the address 10.77.N.G: a subnet for
each N, as rails have in a cluster, all on the same wire. Two adapters have a
pair of sockets between them that only the QEMUs know. Of more, the first
guest's QEMU has a hub, and such a pair leads to each adapter of the others. So
nothing needs root or a port number, and runs beside this one cannot be in the
way. Nothing is lost on the way: between two, a socket that is full stops the
sender. QEMU's hub takes packets all the same and keeps them, and then exchanges
some: a packet that comes when the socket is free again goes before them.
"""

import socket
from collections import namedtuple

MTU = 4500      # RoCE's 4096 and all headers

Plugs = namedtuple("Plugs", "argv sockets")
"""For one guest. argv: for its QEMU, which has then a netdev wireN for each adapter, or empty where there is no other guest to
talk to; sockets: what QEMU inherits."""


def address(guest, nic):
    return f"10.77.{nic}.{guest}"


def mac(guest, nic):
    return f"52:54:00:77:{nic:02x}:{guest:02x}"


def name(guest):
    return f"guest{guest}"


def lay(nics):
    """nics: how many adapters each guest has. Returns the Plugs of each."""
    plugs = [Plugs([], []) for _ in nics]
    if sum(nics) < 2:       # a hub keeps what no port can receive, and the guest takes that for a broken adapter
        return plugs
    if sum(nics) == 2:
        ends = [(guest, nic) for guest, count in enumerate(nics) for nic in range(count)]
        for (guest, nic), end in zip(ends, socket.socketpair()):
            plugs[guest].sockets.append(end)
            plugs[guest].argv.extend(["-netdev", f"socket,id=wire{nic},fd={end.fileno()}"])
        return plugs
    hub = next((guest for guest, count in enumerate(nics) if count), None)
    for guest, count in enumerate(nics):
        for nic in range(count):
            if guest == hub:
                plugs[hub].argv.extend(["-netdev", f"hubport,id=wire{nic},hubid=0"])
                continue
            near, far = socket.socketpair()
            plugs[hub].sockets.append(near)
            plugs[hub].argv.extend(["-netdev", f"socket,id=far{guest}.{nic},fd={near.fileno()}",
                                    "-netdev", f"hubport,id=port{guest}.{nic},hubid=0,netdev=far{guest}.{nic}"])
            plugs[guest].sockets.append(far)
            plugs[guest].argv.extend(["-netdev", f"socket,id=wire{nic},fd={far.fileno()}"])
    return plugs


def orders(guest, nics):
    """What vm/init reads of this; guests count from 1."""
    lines = [f"address={address(guest, nic)}" for nic in range(nics[guest - 1])]
    for other, count in enumerate(nics, 1):
        lines += [f"name={address(other, nic)} {name(other)}-eth{nic}{'' if nic else ' ' + name(other)}"
                  for nic in range(count)]
    return lines


def environment(guest, nics):
    peers = [address(other, 0) for other, count in enumerate(nics, 1) if other != guest and count]
    return {"GUEST": str(guest), "GUESTS": str(len(nics)), "PEERS": " ".join(peers)}
