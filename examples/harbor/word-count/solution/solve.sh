#!/bin/sh
cat > count.sh <<'END'
[ -f "$1" ] || exit 1
set -- $(wc -w < "$1")
echo "$1"
END
