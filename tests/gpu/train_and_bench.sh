#!/usr/bin/env bash
# On a machine with a CUDA device: the GPU tests and a bench of the learner, in under ten minutes.
# usage: bash tests/gpu/train_and_bench.sh [FOLDER FOR THE FIGURES]
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
export PYTHONPATH="core:harbor_adapters:trainer${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export CASTFORM_GPU_FIGURES=${1:-${OUT:-$(mktemp -d)}}
"$PYTHON" -c "import torch; print(torch.__version__, torch.cuda.get_device_name())"
"$PYTHON" -m pytest -m gpu tests/gpu -v -p no:cacheprovider --timeout 540
cat "$CASTFORM_GPU_FIGURES"/gpu_figures.json
