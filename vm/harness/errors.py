# SPDX-License-Identifier: MIT
"""What vm/run returns when the command's own exit code is not the answer."""

TIMEOUT = 124           # the command did not end in time
HARNESS = 125           # the machine could not be built, booted or read
KERNEL = 126            # the kernel panicked, or logged what it may not


class HarnessError(Exception):
    """The harness cannot do what was asked; the text names the remedy."""
