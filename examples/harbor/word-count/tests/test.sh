#!/bin/sh
# A reward between 0 and 1 with parts: the share of files that are counted right, and the missing file.
tests=${ROLLGATE_TESTS_DIR:-/tests}
verifier=${ROLLGATE_LOGS_DIR:-/logs}/verifier
mkdir -p "$verifier"
right=0
for file in "$tests"/data/*; do
  if [ "$(sh count.sh "$file")" = "${file##*/}" ]; then right=$((right + 1)); fi
done
missing=0
if [ -f count.sh ]; then
  said=$(sh count.sh "$tests/data/none" 2>/dev/null)
  if [ $? -eq 1 ] && [ -z "$said" ]; then missing=1; fi
fi
case $((right + missing)) in
  4) reward=1 ;;
  3) reward=0.75 ;;
  2) reward=0.5 ;;
  1) reward=0.25 ;;
  *) reward=0 ;;
esac
echo "{\"reward\": $reward, \"counted\": $right, \"missing\": $missing}" > "$verifier/reward.json"
