# SPDX-License-Identifier: MIT
"""The user's terminal, lent to the guest for an interactive run."""

import contextlib
import os
import sys
import termios
import tty

from .errors import HarnessError


def size():
    """As "ROWSxCOLUMNS"."""
    if not sys.stdin.isatty():
        raise HarnessError("--shell needs a terminal as standard input")
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return f"{rows}x{columns}"


@contextlib.contextmanager
def raw():
    """Every key goes to the guest, Ctrl-C too."""
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
