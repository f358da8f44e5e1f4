#!/bin/sh
# One number: 1 for the right file, else 0.
tests=${ROLLGATE_TESTS_DIR:-/tests}
verifier=${ROLLGATE_LOGS_DIR:-/logs}/verifier
mkdir -p "$verifier"
if cmp "$tests/expected.txt" squares.txt; then reward=1; else reward=0; fi
echo "$reward" > "$verifier/reward.txt"
