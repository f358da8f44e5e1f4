# Runs one command of a sandbox and then kills what it left behind, or does only the latter.
# POSIX sh with builtins alone: an image need not have more, and at its limit of processes a
# sandbox cannot start more.
#
#   sh -c THIS rollgate run MARK NONCE CWD PROGRAM ARGUMENT...
#   sh -c THIS rollgate kill MARK NONCE
#
# Both end their stderr with `[rollgate NONCE CODE OOM_KILLS LEFT]`, CODE being `cwd` when there
# is no such directory. A process belongs to a command by the mark in its environment, by its
# parents, or because no other command runs that it could belong to.

# Living processes of command $1, this shell aside, into `found`.
find_tree() {
  mine=' ' theirs=' ' unmarked='' alone=1
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    case $pid in 1 | $$) continue ;; esac
    state='' parent='' mark=''
    while read -r key value _; do
      case $key in
        State:) state=$value ;;
        PPid:) parent=$value && break ;;
      esac
    done 2>/dev/null <"$dir/status"
    case $state in '' | Z | X) continue ;; esac
    while read -r line || [ -n "$line" ]; do
      case $line in
        *"ROLLGATE_COMMAND=<$1>"*) mark=mine && break ;;
        *"ROLLGATE_COMMAND=<"[0-9]*) mark=theirs alone=0 && break ;;
        *"ROLLGATE_COMMAND=<"*) mark=theirs && break ;;
      esac
    done 2>/dev/null <"$dir/environ"
    # Without a parent in here it was started from outside: someone looks around, or a command of
    # ours is about to begin.
    [ "$mark$parent" = 0 ] && mark=theirs
    case $mark in
      mine) mine="$mine$pid " ;;
      theirs) theirs="$theirs$pid " ;;
      *) unmarked="$unmarked $pid/$parent" ;;
    esac
  done
  grown=1
  while [ $grown = 1 ]; do
    grown=0 rest=''
    for entry in $unmarked; do
      pid=${entry%/*} parent=${entry#*/}
      case $mine in *" $parent "*) mine="$mine$pid " grown=1 && continue ;; esac
      case $theirs in *" $parent "*) theirs="$theirs$pid " grown=1 && continue ;; esac
      rest="$rest $entry"
    done
    unmarked=$rest
  done
  found=${mine# }
  [ $alone = 1 ] || return 0
  for entry in $unmarked; do found="$found${entry%/*} "; done
}

# Kills the tree of command $1. All are stopped before the first dies, so that none can fork in
# the place of another.
reap() {
  looks=0 kills=0 empty=0 stopped=' '
  while [ $looks -lt 300 ]; do
    looks=$((looks + 1))
    find_tree "$1"
    if [ -z "$found" ]; then
      # One that forks and ends during a look may hide its child from it, but not from the next.
      empty=$((empty + 1))
      [ $empty -ge 2 ] && return 0
      continue
    fi
    empty=0 new=0
    for pid in $found; do
      case $stopped in
        *" $pid "*) ;;
        *) new=1 stopped="$stopped$pid " && kill -STOP "$pid" 2>/dev/null ;;
      esac
    done
    [ $new = 1 ] && continue
    kill -KILL $found 2>/dev/null
    stopped=' ' kills=$((kills + 1))
    # Not before some are dead: at the limit of processes this shell would not survive a fork.
    if [ $kills -gt 8 ]; then sleep 0.05 2>/dev/null || sleep 1; fi
  done
  return 1
}

# Processes of this sandbox that the kernel killed for memory so far, into `ooms`.
count_ooms() {
  ooms=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r key value _; do
      [ "$key" = oom_kill ] && ooms=$value
    done 2>/dev/null <"$file"
  done
}

mode=$1 mark_given=$2 nonce=$3
if [ "$mode" = kill ]; then
  reap "$mark_given"
  echo "[rollgate $nonce 0 0 $?]" >&2
  exit
fi
cwd=$4
shift 4
# The command may signal its whole group, and this shell is in it.
trap : HUP INT TERM
count_ooms
before=$ooms
if cd "$cwd" 2>/dev/null; then
  (exec "$@")
  code=$?
else
  code=cwd
fi
reap "$mark_given"
left=$?
count_ooms
echo "[rollgate $nonce $code $((ooms - before)) $left]" >&2
