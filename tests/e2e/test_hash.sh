#!/bin/bash
# SPDX-License-Identifier: MIT
# test_hash.sh - checks that the hash of all samples delivered to a job's instances equals plenumctl's, whatever the
# number of instances, replicas and decoding threads. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

# The 49 samples are not divisible by any product of replicas and micro-batch below.
"$ctl" make-sample data --classes 7 --images 7 --size 96 >/dev/null || exit 99
stream="--pipeline rrc(48)flip(0.5) --seed 11 --epochs 3"

padded=$("$ctl" hash data $stream)
for shape in 1:16 4:4 16:1 3:5; do
    replicas=${shape%:*} micro_batch=${shape#*:}
    alone=$("$ctl" hash data $stream --last drop --replicas $replicas --micro-batch $micro_batch)
    for instances in 1 2 4 3; do
        [ $((replicas % instances)) = 0 ] || continue
        for threads in 1 4; do
            loader_threads $threads
            job -n $instances --num-replicas $replicas "$feed" data $stream --micro-batch $micro_batch --json
            ok "$instances instances, $replicas replicas of $micro_batch, $threads threads: the same hash with padding" delivered "$padded"
            ok "$instances instances share one loader" test "$(ls loaders | wc -l)" = 1
        done
        job -n $instances --num-replicas $replicas "$feed" data $stream --micro-batch $micro_batch --last drop --json
        ok "$instances instances, $replicas replicas of $micro_batch: the same hash with last=drop" delivered "$alone"
    done
done

job -n 2 --num-replicas 4 "$feed" data $stream --micro-batch 2 --steps 3 --prefetch-depth 1 --json
ok "several steps in one batch: the same hash" delivered "$padded"
job -n 2 "$feed" data $stream --shuffle block:4 --dtype uint8 --layout nchw --json
ok "a different order, type and layout: the same hash" delivered "$("$ctl" hash data $stream --shuffle block:4)"
operations="rrc(48,interpolation=random)flip(0.5)vertical_flip(0.5)color_jitter(0.8,0.8,0.8,0.2,p=0.8)"
operations+="sharpness(0:2,p=0.5)"
operations+="equalize(0.2)autocontrast(0.2)grayscale(0.2)solarize(128,p=0.2)posterize(4,p=0.2)invert(0.1)"
operations+="hue(-0.1:0.2,p=0.5)blur(23,0.1:2,p=0.5)cutout(9,p=0.5)erase(0.5,value=pixel)"
choices="rrc(48)flip(0.5)one_of(grayscale(1)|solarize(128)flip(1)|invert(0),p=0.8)"
choices+="rand_augment(2,9)rand_augment(1,9,mstd=0.5,inc=1,p=0.5)trivial_augment_wide(p=0.5)"
choices+="auto_augment(imagenet,p=0.5)augmix(p=0.5)"
maps="rrc(48)flip(0.5)rotate(30,fill=9:8:7)translate(0.1,0.2,p=0.5)vertical_flip(0.5)shear(-5:10:0:5)"
maps+="affine(20,translate=0.1:0.1,scale=0.8:1.2,interpolation=bilinear)perspective(0.5,p=0.8)flip(0.5)"
for pipeline in "$operations" "$choices" "$maps"; do
    stream_of_all="--pipeline $pipeline --seed 11 --epochs 3"
    of_all=$("$ctl" hash data $stream_of_all)
    for form in "--dtype int8 --layout nhwc" "--dtype uint8 --layout nchw"; do
        job -n 2 --num-replicas 4 "$feed" data $stream_of_all --micro-batch 4 $form --json
        ok "every operation, ${pipeline%%)*}), $form: the same hash" delivered "$of_all"
    done
done
tried=0
for number in $(seq 1 40); do
    stream_of_any=(--pipeline "$("$top_builddir/tests/loader/image/dump" --pipeline "$number")" --seed 11 --epochs 2)
    of_any=$("$ctl" hash data "${stream_of_any[@]}" 2>err) || continue # too long
    job -n 2 --num-replicas 4 "$feed" data "${stream_of_any[@]}" --micro-batch 3 --json
    ok "random pipeline $number: the same hash" delivered "$of_any"
    tried=$((tried + 1))
    [ $tried -lt 5 ] || break
done
ok "five random pipelines could be used as options" test $tried = 5
for mix in "mixup(0.2)" "cutmix(1,p=0.7)" "mix(mixup=0.8,cutmix=1)"; do
    stream_of_pairs="--pipeline rrc(48)flip(0.5)grayscale(0.2)$mix --seed 11 --epochs 3"
    of_pairs=$("$ctl" hash data $stream_of_pairs)
    for shape in 1:1 2:4 3:3; do
        job -n "${shape%:*}" --num-replicas "${shape#*:}" "$feed" data $stream_of_pairs --micro-batch 4 --json
        ok "$mix, instances and replicas $shape: the same hash" delivered "$of_pairs"
    done
done
# A position's partner depends only on its epoch, not on the batch, instance or loader. This is also tested at the ends
# of parts and repeats, with one sample, with padded or dropped samples, and with generated images.
mixed="--pipeline rrc(48)flip(0.5)mix(mixup=0.8,cutmix=1) --seed 11 --epochs 2"
for what in "data --subset 3:4" "data --subset 2:9 --repeat 3" "data --last drop" "data --shuffle none" generated:37 \
    generated:1; do
    of_pairs=$("$ctl" hash $what $mixed --replicas 2 --micro-batch 2)
    for threads in 1 4; do
        loader_threads $threads
        job -n 2 "$feed" $what $mixed --micro-batch 2 --json
        ok "mixed, $what, $threads threads: the same hash" delivered "$of_pairs"
    done
done
job -n 2 "$feed" data $mixed --repeat 3 --deal round-robin --micro-batch 4 --json
ok "mixed, repeats dealt round-robin: the same hash" delivered "$("$ctl" hash data $mixed --repeat 3)"

for pipeline in "rrc(40x56)flip(0.5)" "exif letterbox(48x64,fill=114)" "resize(40x24) flip(0.5)" \
    "pad(4,reflect)random_crop(60x72)flip(0.5)" "resize(32)pad(4)random_crop(32)flip(0.5)erase(0.5)"; do
    of_shape=$("$ctl" hash data --pipeline "$pipeline" --seed 11 --epochs 2)
    for form in "--dtype int8 --layout nhwc" "--dtype uint8 --layout nchw"; do
        job -n 2 --num-replicas 4 "$feed" data --pipeline "$pipeline" --seed 11 --epochs 2 --micro-batch 4 $form --json
        ok "$pipeline, $form: the same hash" delivered "$of_shape"
    done
done

is "$padded" "a program without a launcher starts its own loader" \
    sh -c '"$@" | sed -n "s/^hash *//p"' sh "$feed" data $stream --replicas 4 --micro-batch 4

# The hash must be right for the samples so far, whether the program stops after --batches or on a signal.
"$feed" data $stream --replicas 1 --micro-batch 4 --batches 5 --json >out 2>err
code=$?
ok "the hash after --batches 5 is that of the samples so far" delivered "$("$ctl" hash data $stream --samples 20)"
"$feed" data $stream --replicas 1 --micro-batch 4 --epochs 100000 --pause 5 --verbose --json >out 2>err &
wait_for grep -q "batch 3:" err
kill -USR1 $!
wait $!
code=$?
ok "the hash after SIGUSR1 is that of the samples so far" delivered \
    "$("$ctl" hash data $stream --epochs 100000 --samples "$(field images)")"
is "$(field images)" "--samples is the number of samples that are hashed" sh -c \
    '"$@" | sed -n "s/.*\"samples\": \([0-9]*\).*/\1/p"' \
    sh "$ctl" hash data $stream \
    --epochs 100000 --samples "$(field images)" --json
ok "--samples and --parts together are rejected" status 2 "$ctl" hash data --samples 3 --parts 2
finish
