#!/bin/sh
# SPDX-License-Identifier: MIT
#
# libpeerdma-hooks beside other libraries that intercept the same functions.  Each of them sees what it
# sees without the hooks, in every order; in front, the hooks see every call.
#
#   others.sh HOOKS-LIBRARY FOLDER-OF-OTHERS LINKED-PROGRAM PROGRAM
set -u

hooks=$1
others=$2
linked=$3
opens=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

lib() {
	echo "$others/libhooks-other-$1.so"
}

fails() {
	echo "not ok - $1"
	failed=1
}

# calls OUTPUT PRELOAD COMMAND...
calls() {
	output=$1
	preload=$2
	shift 2
	LD_PRELOAD=$preload "$@" >"$work/$output" 2>"$work/errors" && return 0
	fails "$preload: $* ends with an error"
	cat "$work/errors"
	return 1
}

# What other libraries saw.
columns_of_others() {
	sed -n 's/=\(.*\) hooks=.*/=\1/p' "$1"
}

# same PRELOAD-BEHIND PRELOAD-IN-FRONT COMMAND...: the others see the same with the hooks as without, and
# the hooks see everything where they come first.
same() {
	behind=$1
	front=$2
	shift 2
	calls without "$front:$behind" "$@" || return
	calls with "$front:$hooks:$behind" "$@" || return
	columns_of_others "$work/without" >"$work/expected"
	columns_of_others "$work/with" | diff "$work/expected" - || fails "$front:HOOKS:$behind $*: another library sees other calls than without the hooks"
	if [ -z "$front" ] && grep -v 'hooks=3+3$' "$work/with"; then
		fails "HOOKS:$behind $*: the hooks do not see these"
	fi
}

for program in "$linked" "$opens"; do
	for kind in next handle own; do
		same "$(lib $kind)" "" "$program"
		same "" "$(lib $kind)" "$program"
		same "" "" "$program" late "$(lib $kind)" global
		same "" "" "$program" late "$(lib $kind)" local
		for second in next handle own; do
			[ $kind = $second ] && continue
			same "$(lib $kind):$(lib $second)" "" "$program"
			same "$(lib $kind)" "$(lib $second)" "$program"
		done
	done
done

# What is seen by name by a library that follows the order of names: all.
calls with "$hooks:$(lib next)" "$linked"
grep -qx 'name: next=3+3 hooks=3+3' "$work/with" || fails "behind the hooks, another library does not see calls by name"
calls with "$(lib next):$hooks" "$linked"
grep -qx 'name: next=3+3 hooks=3+3' "$work/with" || fails "the hooks do not see what another library passes on"

# A library that calls back, which never ends without the hooks, and one that finds the hooks by its handle.
calls with "$hooks:$(lib back)" "$linked"
grep -qx 'name: back=3+3 hooks=3+3' "$work/with" || { fails "a library that calls back"; cat "$work/with"; }

# A child that was forked.
calls without "$(lib own)" "$linked" fork
calls with "$hooks:$(lib own)" "$linked" fork
columns_of_others "$work/without" >"$work/expected"
columns_of_others "$work/with" | diff "$work/expected" - || fails "a child"

# One that is loaded later, where libcuda is in no order of names: its calls by name come first, and it is kept.
calls with "$hooks" "$opens" late "$(lib handle)" global close
[ "$(grep -c '^name:.* hooks=3+3$' "$work/with")" = 3 ] || { fails "a library that was closed"; cat "$work/with"; }
grep -q '^name: handle=3+3 hooks=3+3$' "$work/with" || { fails "a library that was loaded later is not called by name"; cat "$work/with"; }

# The report names them.
export PEERDMA_HOOKS=report
calls with "$hooks:$(lib next)" "$linked"
grep -qx "cuMemAlloc_v2: also intercepted after this library, by $(lib next)" "$work/errors" || fails "the report does not name a library behind"
grep 'before this library\|cuMemAllocManaged.*also' "$work/errors" && fails "the report names a library that is not there"
calls with "$(lib next):$hooks" "$linked"
grep -qx "cuMemFree_v2: also intercepted before this library, by $(lib next)" "$work/errors" || fails "the report does not name a library in front"
PEERDMA_HOOKS=json
calls with "$hooks:$(lib next)" "$linked"
python3 - "$work/errors" "$(lib next)" <<'EOF' || fails "the report as JSON"
import json, sys
told = json.load(open(sys.argv[1]))
calls = {f["call"]: f for f in told["functions"]}
assert told["schema"] == "peerdma-hooks/1" and told["in_front"] is True
free = calls["cuMemFree_v2"]
assert (free["by_name"], free["dlsym"], free["cuGetProcAddress"]) == (True, True, True), free
assert (free["before"], free["after"]) == (None, sys.argv[2]), free
assert free["calls"] >= 18 and calls["cuMemHostAlloc"]["after"] is None
EOF
calls with "$(lib own):$hooks" "$linked"
python3 - "$work/errors" "$(lib own)" <<'EOF' || fails "the report as JSON, behind another library"
import json, sys
told = json.load(open(sys.argv[1]))
free = [f for f in told["functions"] if f["call"] == "cuMemFree_v2"][0]
assert (told["in_front"], free["by_name"], free["dlsym"], free["before"]) == (True, False, False, sys.argv[2]), free
EOF
PEERDMA_HOOKS=report
calls with "$hooks" "$linked"
grep 'also intercepted' "$work/errors" && fails "the report names a library where there is none"

[ $failed = 0 ] && echo ok
exit $failed
