# SPDX-License-Identifier: MIT
"""A camera: a program outside the guest, at the other end of the wire of a network card.

The wire is a pair of datagram sockets: a packet is a datagram. It holds a few; when QEMU does not take them, the camera finds
the wire busy.
"""

import os
import shlex
import socket
import subprocess

from .errors import HarnessError
from .paths import BUILD

OURS = os.path.join(BUILD, "user/peers/grabber/camera")


def mac(guest, number):
    return f"52:54:00:63:{number:02x}:{guest:02x}"


class Camera:
    def __init__(self, command):
        self.argv = shlex.split(command)
        if not self.argv:
            raise HarnessError("--camera: no command given")
        if self.argv[0] == "camera":
            self.argv[0] = OURS
        self.wire, self.own = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.process = None

    def start(self, before):
        try:
            self.process = subprocess.Popen(self.argv, stdin=self.own, preexec_fn=before)
        except OSError as error:
            hint = "; build it with: make user" if self.argv[0] == OURS else ""
            raise HarnessError(f"--camera {self.argv[0]}: {error.strerror}{hint}") from error
        self.own.close()

    def end(self):
        """It is asked to end, and says then what it has sent."""
        if not self.process:
            return
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
