# Kills all processes that carry the tag of a command, until there are none.
round=0
while [ "$round" -lt 50 ]; do
  found=$(grep -lsF "ROLLGATE_COMMAND=$tag" /proc/[0-9]*/environ)
  [ -n "$found" ] || break
  for one in $found; do
    one=${one#/proc/}
    kill -9 "${one%/environ}" 2>/dev/null
  done
  round=$((round + 1))
done
