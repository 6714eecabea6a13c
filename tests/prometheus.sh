#!/bin/sh
# SPDX-License-Identifier: MIT
#
# peerdma metrics, its alerts and its dashboard, by Debian's Prometheus, node exporter and promtool.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
command=$top/build/user/peerdma/tools/peerdma
tools=$("$top/vm/fetch-prometheus") || {
	echo "skip: Debian's prometheus cannot be fetched"
	exit 77
}
promtool=$tools/usr/bin/promtool
work=$(mktemp -d)
scrape=
trap '[ -z "$scrape" ] || { kill "$scrape"; wait "$scrape"; } 2>/dev/null || :; rm -rf "$work"' EXIT

python3 -B "$top/tests/metrics/machine.py" "$work/machine"
for format in openmetrics prometheus; do
	"$command" metrics --root "$work/machine" --format $format --output "$work/$format.prom"
done
# Prometheus looks for targets five seconds after its start: meanwhile the rest.
python3 -B "$top/tests/metrics/scrape.py" "$tools" "$work/openmetrics.prom" "$work/prometheus.prom" &
scrape=$!
# promtool knows the older format only.
"$promtool" check metrics <"$work/prometheus.prom"

cp "$top"/packaging/prometheus/*.yml "$work"
cd "$work"
"$promtool" check rules peerdma.rules.yml
"$promtool" test rules peerdma.test.yml
# A week of machines in order, and of broken ones.
python3 -B "$top/tests/metrics/week.py" "$command" "$work/week" >week.yml
"$promtool" test rules week.yml

# Each expression of the dashboard, as a rule.
python3 - "$top/packaging/prometheus/peerdma-dashboard.json" >dashboard.yml <<'END'
import json, sys
board = json.load(open(sys.argv[1]))
expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
print("groups:\n- name: dashboard\n  rules:")
for number, expression in enumerate(expressions):
    for name, value in (("$job", ".*"), ("$instance", ".*"), ("$__rate_interval", "5m")):
        expression = expression.replace(name, value)
    print(f"  - record: panel_{number}\n    expr: {json.dumps(expression)}")
END
"$promtool" check rules dashboard.yml

wait "$scrape"
