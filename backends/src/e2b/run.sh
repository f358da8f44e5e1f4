# Runs one command: exactly once, its output bounded, nothing of it left running. Its report comes
# on standard output and stays in a file, for a client that lost the stream.
# Arguments: directory of this run, tag, bytes of head, bytes of tail, bytes that the report may
# bring along, work directory, 1 if there is an input, the directory of an earlier run or -, command.
dir=$1 tag=$2 head=$3 tail=$4 inline=$5 cwd=$6 input=$7 old=$8
shift 8
umask 077
[ -d "${dir%/*}" ] || mkdir -p "${dir%/*}"
# Whoever makes the directory runs the command: a second start of the same run does not.
mkdir "$dir" 2>/dev/null || { [ -d "$dir" ] && exit 121; echo "cannot make $dir" >&2; exit 122; }
[ "$old" = - ] || rm -rf "$old" "$old.in"

report() { # CODE
  read -r oh ot oc ob <"$dir/out.sizes" || ob=1
  read -r eh et ec eb <"$dir/err.sizes" || eb=1
  line="rollgate $1 $oh $ot $eh $et $((oc + ec)) $ob$eb" total=$((oh + ot + eh + et))
  if [ "$total" -gt 0 ] && [ "$total" -le "$inline" ]; then
    set --
    for part in out.head out.tail err.head err.tail; do
      [ ! -s "$dir/$part" ] || set -- "$@" "$dir/$part"
    done
    { echo "$line" && cat "$@"; } >"$dir/report"
    cat "$dir/report"
  else
    # A reader takes a report only when it is whole, so that it may be written in place.
    echo "$line" >"$dir/report"
    echo "$line"
  fi
  exit 0
}

# Keeps the head and the tail of its input, and how much was between them. What is between fills at
# most two chunks of disk.
keep() { # NAME
  h=0 t=0 cut=0 bad=0
  if [ "$head" -gt 0 ]; then
    dd bs="$head" count=1 iflag=fullblock of="$dir/$1.head" 2>/dev/null || bad=1
    [ ! -s "$dir/$1.head" ] || h=$(($(wc -c <"$dir/$1.head")))
  fi
  if [ "$h" -eq "$head" ]; then
    n=0 total=0 chunk=1048576
    [ "$tail" -le "$chunk" ] || chunk=$tail
    while :; do
      s=0
      dd bs="$chunk" count=1 iflag=fullblock of="$dir/$1.$((n % 2))" 2>/dev/null || bad=1
      [ ! -s "$dir/$1.$((n % 2))" ] || s=$(($(wc -c <"$dir/$1.$((n % 2))")))
      total=$((total + s))
      [ "$s" -eq "$chunk" ] || break
      n=$((n + 1))
    done
    if [ "$total" -gt 0 ]; then
      {
        [ "$n" -eq 0 ] || cat "$dir/$1.$(((n + 1) % 2))"
        cat "$dir/$1.$((n % 2))"
      } | tail -c "$tail" >"$dir/$1.tail" || bad=1
      t=$((total < tail ? total : tail))
      cut=$((total - t))
    fi
    rm -f "$dir/$1.0" "$dir/$1.1"
  fi
  echo "$h $t $cut $bad" >"$dir/$1.sizes"
}

if ! cd "$cwd" 2>/dev/null; then
  echo "0 0 0 0" >"$dir/out.sizes"; echo "0 0 0 0" >"$dir/err.sizes"; report nodir
fi
if ! command -v "$1" >/dev/null 2>&1; then
  echo "0 0 0 0" >"$dir/out.sizes"; echo "0 0 0 0" >"$dir/err.sizes"; report noprogram
fi
from=/dev/null
[ "$input" != 1 ] || from=$dir.in
mkfifo "$dir/o" "$dir/e"
keep out <"$dir/o" &
out=$!
keep err <"$dir/e" &
err=$!
# In the foreground: a shell's background commands ignore interrupts, and so would theirs.
(
  ROLLGATE_COMMAND=$tag
  export ROLLGATE_COMMAND
  umask 022
  exec "$@"
) <"$from" >"$dir/o" 2>"$dir/e"
code=$?
