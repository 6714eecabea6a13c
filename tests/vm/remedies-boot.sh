#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma doctor says is to be put on the kernel's command line is put there, and the machine booted again: then the
# doctor does not say so again, its verdict has changed, and the data arrives that was lost.
# Behind each of two ports, which redirect where Linux has an IOMMU (ACS), are a GPU and a card: remedies-boot.cfg.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm: --cpus 1 --gpus 0 --cards 0 --iommu on --qemu=-readconfig --qemu=tests/vm/remedies-boot.cfg
# vm-more: --gpus 0 --cards 0 --iommu on --qemu=-readconfig --qemu=tests/vm/remedies-boot.cfg --kernel {6.12,7.2}

. "$TOP/tests/vm/lib.sh"

# Of AMD's interface, which leaves it to peerdma.ko which paths are mapped.
modules="softgpu amdgpu peerdma peerdma_amd peerdma_fpga"
told=$(mktemp)
words=$(mktemp)

# data lost|arrives: what the card makes of bus addresses, of both pairs.
data() {
	set -- "$1" $(devices 0x1af4 0x1110) $(devices 0x1234 0x11e8)
	[ $# = 5 ] || die "not two GPUs and two cards: $*"
	for pair in "$4 $2" "$5 $3"; do
		# shellcheck disable=SC2086 # two addresses
		"$BUILD/tests/doctor/bus-dma" $pair
		case $1.$? in
		arrives.0 | lost.1) ;;
		*) die "data by bus addresses of $pair is not what was foretold: $1" ;;
		esac
	done
}

# examine CODE FINDING...: the doctor's exit code, and the findings whose remedies name words for the kernel's command line:
# "VERDICT CHECK SUBJECT: WORDS". Those of ACS, or if there are none, all, are left in $words.
examine() {
	expected=$1
	shift
	"$BUILD/peerdma/tools/peerdma" doctor --json >"$told"
	code=$?
	[ $code = "$expected" ] || die "exit code $code, not $expected: $(cat "$told")"
	python3 - "$told" "$@" <<'PYTHON' >"$words" || die "the doctor says otherwise: $(cat "$told")"
import json, re, sys

with open(sys.argv[1]) as file:
    findings = json.load(file)["findings"]
found = {}
for f in findings:
    named = re.search(r"\b(pci|iommu)=[^ ,;]+", f["remedy"] or "")
    if not named:
        continue
    words = named[0]
    # As an administrator reads it: the functions are those in the evidence.
    if words in ("pci=disable_acs_redir=", "pci=disable_acs_redir=PORT"):
        words = "pci=disable_acs_redir=" + ";".join(e["value"].split(": ")[0] for e in f["evidence"] if "(redirects)" in e["value"])
    found[f"{f['verdict']} {f['check']} {f['subject']}"] = words
expected = dict(argument.split(": ", 1) for argument in sys.argv[2:])
if found != expected:
    sys.exit(f"found: {found}\nexpected: {expected}")
# Functions of several remedies are one list.
ports = [word.split("=")[2] for word in found.values() if word.startswith("pci=disable_acs_redir=")]
print("pci=disable_acs_redir=" + ";".join(ports) if ports else " ".join(sorted(set(found.values()))))
PYTHON
}

near=0000:00:03.0
far=0000:60:01.0
case ${BOOT-} in
1)
	data lost
	load_modules
	examine 1 "slow reach GPU0 and CARD0: pci=disable_acs_redir=$near" "broken reach GPU1 and CARD1: pci=disable_acs_redir=$far" \
		"slow iommu CARD0: iommu=pt" "slow iommu CARD1: iommu=pt" \
		"broken kernel-log CARD0 and GPU0: iommu=pt" "broken kernel-log CARD1 and GPU1: iommu=pt" ;;
2)
	# The ports do not redirect, and the IOMMU still translates: past a host bridge that is in no list, and for a kernel with
	# p2pdma, which would use bus addresses.
	load_modules
	set -- "broken reach GPU1 and CARD1: iommu=pt" "slow iommu CARD0: iommu=pt" "slow iommu CARD1: iommu=pt"
	! grep -q " pci_p2pdma_distance_many$" /proc/kallsyms ||
		set -- "$@" "broken bus-address GPU0 and CARD0: iommu=pt" "broken bus-address GPU1 and CARD1: iommu=pt"
	examine 1 "$@" ;;
3)
	data arrives
	load_modules
	examine 0 ;;
*)	die "boot ${BOOT-} is one too many; the first one is BOOT=1" ;;
esac
unload_modules
read -r more <"$words"
[ -z "$more" ] || echo "boot-again: $more"
