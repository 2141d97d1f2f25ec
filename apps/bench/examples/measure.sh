#!/bin/sh
# Measures a server: has Barebell started, has its users register and call one another, and prints
# what came of it. Takes the two programs from the path, or where BAREBELL_BIN and BAREBELL_BENCH
# say that they are. Ends with another status than 0 where an operation fails.
#
# A server that runs already is measured with --target udp:HOST:PORT in place of --sut.
set -eu
bench=${BAREBELL_BENCH:-barebell-bench}

# Who asks how fast answers come leaves --max-lag out: it lets the generator be late, as it may be on
# a machine that does something else.
for operation in register invite; do
    "$bench" run --sut barebell --operation "$operation" --rate 100 --users 200 --duration 1s \
        --max-lag 10s --quiet --no-report
done
