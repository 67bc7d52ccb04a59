#!/bin/bash
# SPDX-License-Identifier: MIT
# test_bottleneck.sh - plenumctl bench, plan and trace, and the environment variables for them in any program.
. "$top_srcdir/tests/lib.sh"
ctl=$top_builddir/plenumctl feed=$top_builddir/examples/feed
unset PLENUM_LOADER PLENUM_SOURCE PLENUM_TRACE
cd "$T" || exit 99
"$ctl" make-sample data --classes 3 --images 7 --size 64 >/dev/null || exit 99
json() { "$PYTHON" -c "import json, sys; d = json.load(open('$1')); sys.exit(not ($2))"; }
says() { grep -q -e "$1" err || { echo "no '$1' in:"; cat err; return 1; }; }

# ---- plan: throughput = R M GA / (GA T_MB + T_AR) ----
"$ctl" plan --micro-batch 32 --micro-batch-time 50ms --gradient-accumulation 3 --allreduce-time 10ms --image-time 2ms \
    --replicas 1,2,16 --json >plan.json
if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ]; then
    ok "plan: one replica needs no all-reduce" json plan.json \
        "d['rows'][0]['images_per_second'] == 640 and d['rows'][0]['step_ms'] == 150"
    ok "plan: several replicas do" json plan.json \
        "abs(d['rows'][1]['images_per_second'] - 2*32*3/0.16) < 0.1 and abs(d['rows'][2]['images_per_second'] - 16*32*3/0.16) < 0.1"
    ok "plan: cores = images/s x time per image" json plan.json \
        "all(abs(r['loader_cores'] - r['images_per_second'] * 0.002) < 0.01 for r in d['rows'])"
    "$ctl" plan --micro-batch 32 --micro-batch-time 50ms --copy-time 70ms --gradient-accumulation 3 \
        --allreduce-time 10ms --replicas 1,2 --json >plan.json
    ok "plan: a copy that is slower than the computation bounds the step" json plan.json \
        "[round(r['step_ms'], 3) for r in d['rows']] == [210, 220]"
else
    skip "plan" "no Python to read JSON with"
fi
ok "plan measures the time per image if a data set is given" \
    sh -c '"$@" | grep -q "^rendering an image takes one core [1-9][0-9]* us$"' sh \
    "$ctl" plan data --pipeline 'rrc(32)' --micro-batch 4 --micro-batch-time 1s
for copy in 50ms 51ms; do
    "$ctl" plan --micro-batch 32 --micro-batch-time 50ms --copy-time $copy >"$copy"
done
ok "plan reports that copies bound the steps" grep -q '^copying to the device takes longer than computing' 51ms
ok "plan does not mention copies that do not bound the steps" sh -c '! grep copying 50ms'
mkdir -p kinds/a
cp "$top_srcdir"/tests/loader/image/golden/{progressive,420}.jpg kinds/a/
"$ctl" plan kinds --pipeline 'rrc(32)' --micro-batch 4 --micro-batch-time 1s >out
ok "plan advises to pack progressive JPEGs" grep -q '^50.0 % of the JPEGs that were measured are progressive: plenumctl pack' out
"$ctl" plan kinds --pipeline 'rrc(32)' --micro-batch 4 --micro-batch-time 1s --json >kinds.json
ok "plan counts progressive JPEGs in JSON" grep -q '"measured_progressive": 100,' kinds.json
"$ctl" plan data >out 2>err
ok "plan names missing options" says "--micro-batch and --micro-batch-time are needed"

# ---- sources ----
alone=$("$ctl" hash data --pipeline 'rrc(32)' --epochs 2)
hash_of() {
    PLENUM_SOURCE=$1 "$feed" data --pipeline 'rrc(32)' --epochs 2 --micro-batch 4 --json >out 2>err
    sed -n 's/.*"hash": "\([^"]*\)".*/\1/p' out
}
is "$alone" "PLENUM_SOURCE=real does not change the hash" hash_of real
synthetic=$(hash_of synthetic)
ok "PLENUM_SOURCE=synthetic: the same number of images" grep -q '"images": 42,' out
ok "PLENUM_SOURCE=synthetic: the pixels are different" test -n "$synthetic" -a "$synthetic" != "$alone"
hash_of imaginary >/dev/null
ok "an unknown source is rejected" says "PLENUM_SOURCE=imaginary: it must be real, generated or synthetic"

# ---- bench ----
"$ctl" bench stream data --pipeline 'rrc(32)' --micro-batch 4 --seconds 300ms --rounds 3 --sources real,synthetic \
    --json >bench.json 2>err
ok "bench measures the chosen source" grep -q '"name": "real"' bench.json
ok "bench does not measure other sources" sh -c '! grep -q generated bench.json'
if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ]; then
    ok "bench: min <= median <= max" json bench.json "all(0 < r['min'] <= r['median'] <= r['max'] for r in d['rows'])"
    ok "bench reports the loader's times and threads" json bench.json \
        "d['render_us'] > 0 and d['threads'] >= 1 and d['io_threads'] >= 1"
fi
"$ctl" bench stream data --pipeline 'rrc(32)' --micro-batch 2 --seconds 900ms --rounds 1 --sources real \
    --step-time 200ms >out 2>err
ok "bench gives a verdict for the given step time" grep -q "^verdict .*host-bound.*: steps of 200 ms" out
"$ctl" bench stream data --subset 5:5 --seconds 100ms --rounds 1 >out 2>err
ok "bench: an empty --subset is rejected" grep -q "holds no samples" err
"$ctl" bench stream nowhere >out 2>err
ok "bench names a data set that does not exist" says "$T/nowhere"
ok "bench: an unknown benchmark is rejected" status 2 "$ctl" bench nothing data

# ---- trace ----
PLENUM_TRACE=$T/trace "$feed" data --pipeline 'rrc(32)' --micro-batch 4 --steps 1 >out 2>err
PLENUM_TRACE=$T/trace "$feed" data --pipeline 'rrc(32)' --micro-batch 3 >out 2>err
ok "PLENUM_TRACE: one file per stream" test "$(ls trace | wc -l)" = 2
is "2 streams, 13 batches" "trace counts batches" sh -c '"$@" | head -n 1' sh "$ctl" trace trace joined.json
if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ]; then
    for f in trace/* joined.json; do ok "JSON: $(basename $f)" json $f "len(d) > 20"; done
    cat >order.py <<'END'
import json, sys
events = [e for e in json.load(open("joined.json")) if e["ph"] == "X"]
batches = {}
for e in events:
    if e["name"] != "wait":
        batches.setdefault((e["pid"], e["args"]["batch"]), {})[e["name"]] = (e["ts"], e["ts"] + e["dur"])
assert len(batches) == 13, len(batches)
for b in batches.values():
    way = [b[n] for n in ("queue", "render", "ready", "in use")]
    for (_, end), (begin, _) in zip(way, way[1:]):
        assert abs(end - begin) < 2, way  # microseconds; JSON's numbers are rounded
END
    ok "each batch is queued, rendered, ready and in use, without gaps" "$PYTHON" order.py
fi
head -c 2000 "$(ls trace/* | head -n 1)" >trace/cut.trace.json
ok "a truncated trace is read as far as it goes" "$ctl" trace trace joined.json
head -c 1100000 /dev/zero | tr '\0' x >>"$(ls -d trace/* | head -n 1)"
"$ctl" trace trace joined.json >out 2>err
ok "an overlong line is rejected" says "has a line of more than 1 MiB: is it a text file?"
"$ctl" trace data joined.json >out 2>err
ok "a folder without traces is rejected" says "data holds no traces"
PLENUM_TRACE=/dev/null/x "$feed" data --pipeline 'rrc(32)' >out 2>err
ok "a trace that cannot be written does not end the stream" \
    sh -c 'grep -q "^hash" out && grep -q "warning: no trace: PLENUM_TRACE=/dev/null/x" err'
finish
