#!/usr/bin/env bash
# prepare.sh [NAME...]: installs the gateways that `rollgate bench --peer NAME` knows (haproxy, nginx,
# sglang-router, vllm-router; default: all of them), once, into ${ROLLGATE_CACHE:-$HOME/.cache/rollgate}/peers.
# Progress goes to stderr; stdout has one `export` line, so `eval "$(bench/peers/prepare.sh)"` works.
set -euo pipefail
peers=${ROLLGATE_CACHE:-$HOME/.cache/rollgate}/peers
bin=$peers/bin
mkdir -p "$bin"
exec 9>"$peers/.lock"
flock 9

say() { printf 'prepare: %s\n' "$*" >&2; }

debian() { # NAME: from the system, else from its package, unpacked and not installed
  local name=$1 found
  found=$(command -v "$name" || true)
  for found in "$found" "/usr/sbin/$name"; do
    if [ -n "$found" ] && [ -x "$found" ]; then
      ln -sf "$found" "$bin/$name"
      return
    fi
  done
  command -v apt-get >/dev/null || { say "$name: install it by hand, or put it on the PATH"; exit 3; }
  say "$name: installing its package"
  if [ "$(id -u)" = 0 ]; then
    apt-get install -y -q --no-install-recommends "$name" >&2
  else
    sudo apt-get install -y -q --no-install-recommends "$name" >&2
  fi
  ln -sf "$(command -v "$name" || echo "/usr/sbin/$name")" "$bin/$name"
}

router() { # NAME VERSION MODULE
  local name=$1 version=$2 module=$3 venv=$peers/$1-$2
  if [ ! -f "$venv/.complete" ]; then
    say "$name $version: installing"
    rm -rf "$venv"
    "$(command -v python3.11 || command -v python3)" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "$name==$version" >&2
    touch "$venv/.complete"
  fi
  printf '#!/bin/sh\nexec %q -m %s "$@"\n' "$venv/bin/python" "$module" > "$bin/$name"
  chmod +x "$bin/$name"
}

[ $# -gt 0 ] || set -- haproxy nginx sglang-router vllm-router
for name in "$@"; do
  case $name in
    haproxy | nginx) debian "$name" ;;
    sglang-router) router sglang-router 0.3.2 sglang_router.launch_router ;;
    vllm-router) router vllm-router 0.1.17 vllm_router.launch_router ;;
    *) say "unknown peer $name"; exit 2 ;;
  esac
  say "$name: $bin/$name"
done
printf 'export ROLLGATE_BENCH_PATH=%q\n' "$bin"
