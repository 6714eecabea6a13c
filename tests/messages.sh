#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What the tree's own scripts answer to a mistake: at once, with the cause, and without a machine or a build.
set -u

. "$(dirname "$0")/host.sh"
cd "$top" || exit

# answers WHAT CODE TEXT COMMAND...: nothing boots, since what is found as QEMU only says so.
mkdir "$work/bin"
for program in qemu-system-x86_64 qemu-system-aarch64; do
	printf '#!/bin/sh\necho "%s was started"\nexit 1\n' $program >"$work/bin/$program"
	chmod +x "$work/bin/$program"
done
answers() {
	what=$1
	code=$2
	text=$3
	shift 3
	PATH=$work/bin:$PATH "$@" >"$work/answer" 2>&1
	expect "$what: exit code" "$code" $?
	contains "$what" "$text" "$work/answer"
}

answers "make demo MODE=foo" 2 "^make demo: there is no MODE=foo; it is vm or process$" make demo MODE=foo
answers "make demo-rdma MODE=process" 2 "^make demo-rdma: there is no MODE=process; it is vm or one$" make demo-rdma MODE=process
answers "vm/run --gpus 99" 125 "^vm/run: 100 devices (.*): at most 24 together$" vm/run --gpus 99 -- true
answers "vm/run with --nothing" 125 "^vm/run: .*--nothing" vm/run --nothing -- true
answers "vm/run without a command" 125 "^vm/run: no command given$" vm/run
answers "vm/run --topology foo" 125 "^vm/run: .*'foo'.*'ports', 'switch', 'sockets'" vm/run --topology foo -- true
answers "vm/build-modules --help" 0 "^  vm/build-modules \[--name NAME\] KERNEL" vm/build-modules --help
answers "vm/build-modules without a kernel" 2 "^vm/build-modules: no kernel given; vm/build-modules --help tells more$" vm/build-modules
answers "vm/build-modules --nothing" 2 "^vm/build-modules: there is no option --nothing; " vm/build-modules --nothing
answers "vm/build-modules with a folder without headers" 2 "^vm/build-modules: $work/: no kernel headers there" vm/build-modules "$work/"
for name in --help --nothing; do
	if [ -e "build/modules/$name" ]; then fail "a folder build/modules/$name"; else pass "no folder build/modules/$name"; fi
done
answers "softgpu/install/install.sh --help" 0 "^  \[DESTDIR=DIR\] softgpu/install/install.sh MODDIR$" softgpu/install/install.sh --help
answers "softgpu/install/install.sh without a folder" 1 "^softgpu/install/install.sh: usage: " softgpu/install/install.sh
answers "peerdma/peermem/install/install.sh --help" 0 "^usage: .*peerdma/peermem/install/install.sh" peerdma/peermem/install/install.sh --help

# The demonstration's own options, before a machine is booted.
if [ -e build/user/build.ninja ]; then
	answers "make demo DEMO_ARGS=--help" 0 "^usage: fpga-demo \[options\]$" make -s demo DEMO_ARGS=--help
	answers "make demo DEMO_ARGS=--nothing" 2 "^fpga-demo: unrecognized option '--nothing'$" make -s demo DEMO_ARGS=--nothing
	answers "make demo MODE=process DEMO_ARGS=--help" 0 "^usage: process-demo" make -s demo MODE=process DEMO_ARGS=--help
fi
if [ -e build/user/peers/hca/demo/rdma-demo ]; then
	answers "make demo-rdma DEMO_ARGS=--help" 0 "^usage: rdma-demo" make -s demo-rdma DEMO_ARGS=--help
	answers "make demo-rdma DEMO_ARGS=--size 3" 2 "^rdma-demo: --size is a multiple of 32K" make -s demo-rdma "DEMO_ARGS=--size 3"
fi

# A long build shows that it lives, in a log too; its exit code and its other output stay.
vm/progress sh -c 'echo "[3/9] Compiling C object a.o"; echo words; sleep 12; exit 3' >"$work/answer" 2>&1
expect "vm/progress: exit code" 3 $?
expect "vm/progress: what is no step" words "$(grep -v ' steps, ' "$work/answer")"
contains "vm/progress: a line every ten seconds" "^  3 of 9 steps, 1[0-9] s$" "$work/answer"
vm/progress --log "$work/log" sh -c 'echo words; kill -TERM $$' >"$work/answer" 2>&1
expect "vm/progress: a signal" 143 $?
expect "vm/progress --log" "words" "$(cat "$work/log" "$work/answer")"

# gtest LAST-LINES...: a log of googletest's, in which a test named some/suite.good/0 has passed.
gtest() {
	printf '%s\n' '[ RUN      ] some/suite.good/0' '[       OK ] some/suite.good/0 (1 ms)' "$@" >"$work/gtest"
}
ran='[==========] 2 tests from 1 test suite ran. (2 ms total)'
result="tests/thirdparty/gtest-result $work/gtest"
gtest "$ran" '[  PASSED  ] 1 test.'
answers "gtest-result: all passed" 0 "^\[  PASSED  \] 1 test" $result 0
answers "gtest-result: a test that is named as failing passes" 1 "^FAIL some/suite.good/0 passes" $result 0 some/suite.good/0
answers "gtest-result: a crash at the end" 1 "^FAIL the program ended with exit code 139" $result 139
answers "gtest-result: exit code 1 for no reason" 1 "^FAIL the exit code is 1, and no test" $result 1
gtest '[ RUN      ] some/suite.bad/0'
answers "gtest-result: a crash after passes" 1 "^FAIL the program ended within some/suite.bad/0" $result 134
answers "gtest-result: the output ends, the exit code does not say why" 1 "^FAIL the program ended within some/suite.bad/0" $result 0
gtest '[ RUN      ] some/suite.bad/0' '[  FAILED  ] some/suite.bad/0, where GetParam() = x (1 ms)' "$ran" '[  PASSED  ] 1 test.' \
	'[  FAILED  ] 1 test, listed below:' '[  FAILED  ] some/suite.bad/0, where GetParam() = x'
answers "gtest-result: a failure" 1 "^FAIL some/suite.bad/0$" $result 1
answers "gtest-result: a known failure" 0 "^known to fail: some/suite.bad/0" $result 1 some/suite.bad/0

exit $failed
