#!/bin/sh
# Measures a server: starts Barebell, lets its users register and call each other, and prints the
# results. The two programs are taken from the path, or from BAREBELL_BIN and BAREBELL_BENCH. The
# exit status is not 0 if an operation fails.
#
# To measure a server that runs, replace --sut with --target udp:HOST:PORT.
set -eu
bench=${BAREBELL_BENCH:-barebell-bench}

# --max-lag and --max-other-load let this pass on a busy machine. A measurement of delays leaves them
# out: then a run is not valid if the generator is late, or if other programs use the processors.
for operation in register invite; do
    "$bench" run --sut barebell --operation "$operation" --rate 100 --users 200 --duration 1s \
        --max-lag 10s --max-other-load 100 --quiet --no-report
done
