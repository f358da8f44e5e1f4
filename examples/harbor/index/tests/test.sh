#!/bin/sh
# The tree is made here, so no agent can have seen it.
verifier=${ROLLGATE_LOGS_DIR:-/logs}/verifier
mkdir -p "$verifier"
tree=$(mktemp -d)
dir=$tree
level=1
while [ "$level" -le "${DEPTH:-3}" ]; do
  dir=$dir/level$level
  mkdir -p "$dir"
  : > "$dir/b.txt"
  : > "$dir/A.txt"
  : > "$dir/not.md"
  level=$((level + 1))
done
mkdir "$tree/folder.txt"
sh index.sh "$tree" > "$tree/got"
cat > "$tree/expected" <<'END'
level1/A.txt
level1/b.txt
level1/level2/A.txt
level1/level2/b.txt
level1/level2/level3/A.txt
level1/level2/level3/b.txt
END
if cmp "$tree/expected" "$tree/got"; then reward=1.0; else reward=0.0; fi
echo "$reward" > "$verifier/reward.txt"
rm -rf "$tree"
