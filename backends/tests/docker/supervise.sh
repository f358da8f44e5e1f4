# Runs a Docker engine of the tests' own, and ends it when its stdin does: however the tests end.
#
#   sh supervise.sh DIR STORAGE_DRIVER BRIDGE
#
# Everything of the engine is in DIR, which goes with it, and so does the network interface BRIDGE. It neither needs nor changes the
# machine's firewall and forwarding; should it do so after all, the policy is put back.

dir=$1 driver=$2 bridge=$3
root=''
[ "$(id -u)" = 0 ] || root='sudo -n'
policy() { $root iptables -S FORWARD 2>/dev/null | head -n 1; }
before=$(policy)

run() {
  $root dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
    --host "unix://$dir/sock" --group "$(id -gn)" --storage-driver "$driver" \
    --iptables=false --ip-forward=false --ip-masq=false --bridge=none >>"$dir/log" 2>&1
}
# A test that kills the engine and wants it back says so before. The first start after that may
# fail: containerd waits too long for what the killed one left.
{
  run
  while [ -e "$dir/again" ]; do run; done
} &
running=$!

cat >/dev/null

rm -f "$dir/again"
tries=0 told=''
while kill -0 "$running" 2>/dev/null && [ $tries -lt 300 ]; do
  # Once for each: asked again, it would leave without clearing up.
  pid=$(cat "$dir/pid" 2>/dev/null)
  if [ "$pid" != "$told" ] && $root kill "$pid" 2>/dev/null; then told=$pid; fi
  tries=$((tries + 1))
  sleep 0.1
done
pid=$(cat "$dir/pid" 2>/dev/null) && $root kill -9 "$pid" 2>/dev/null
wait "$running" 2>/dev/null
if [ -n "$before" ] && [ "$(policy)" != "$before" ]; then $root iptables $before; fi
[ -e "/sys/class/net/$bridge" ] && $root busybox ip link delete "$bridge"
# What a killed engine left running: shims name its folder, and each has a container below it.
for process in /proc/[0-9]*; do
  words=$( (tr '\0' ' ' <"$process/cmdline") 2>/dev/null)
  case $words in *" $dir/"*) ;; *) continue ;; esac
  $root kill -9 $(cat "$process"/task/*/children 2>/dev/null) "${process#/proc/}" 2>/dev/null
done
# What it left mounted, the deepest first.
while read -r _ place _; do
  case $place in "$dir"/*) echo "$place" ;; esac
done </proc/mounts | sort -r | while read -r place; do $root umount -l "$place"; done
$root rm -rf "$dir"
