#!/bin/sh
cat > index.sh <<'END'
cd "$1" && find . -type f -name '*.txt' | sed 's,^\./,,' | LC_ALL=C sort
END
