#!/usr/bin/env bash
# serve-vllm.sh PYTHON MODEL_DIR PORT [extra args]: the engine of the tests, in the foreground.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
py=$1 model=$2 port=$3
shift 3
PATH="$(dirname "$py"):$PATH"
PYTHONPATH="$here"
PYTHONDONTWRITEBYTECODE=1
VLLM_SERVER_DEV_MODE=1
OMP_NUM_THREADS=1
VLLM_CPU_KVCACHE_SPACE=1
HF_HUB_OFFLINE=1
VLLM_NO_USAGE_STATS=1
DO_NOT_TRACK=1
export PATH PYTHONPATH PYTHONDONTWRITEBYTECODE VLLM_SERVER_DEV_MODE OMP_NUM_THREADS
export VLLM_CPU_KVCACHE_SPACE HF_HUB_OFFLINE VLLM_NO_USAGE_STATS DO_NOT_TRACK
exec "$py" -m vllm.entrypoints.openai.api_server \
  --model "$model" --served-model-name tiny --host 127.0.0.1 --port "$port" \
  --dtype float32 --max-model-len 8192 --max-num-seqs 8 --enforce-eager \
  --enable-scale-out --enable-prompt-tokens-details \
  --logits-processors force_tokens:ForceTokens "$@"
