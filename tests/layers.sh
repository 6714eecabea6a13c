#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Calls go downwards only, and in no circle: tests/layers/layers.toml.
exec "$(dirname "$0")/layers/run"
