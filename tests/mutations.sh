#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What tests/mutate/mutations.toml is to break is still there to be broken.
# "make mutate" breaks it.
exec "$(dirname "$0")/mutate/run" --check
