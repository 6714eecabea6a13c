#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What tests/mutate/mutations.toml is to break is still there to be broken.
# "make mutate" breaks it.
set -e
place=$(dirname "$0")/mutate
"$place/run" --check
# What random changes are made of, where clang's parser is (vm/deps.sh mutate).
if /usr/bin/python3 -c 'import clang.cindex' 2>/dev/null; then
	python3 "$place/test_sites.py"
else
	echo "no python3-clang here: tests/mutate/sites is not tried"
fi
