#!/usr/bin/env bash
# Set-up, build, and the quickstart: a small vision-language model learns to read handwritten digits, as a pipeline of
# two ranks on this machine.
#
#   examples/quickstart/run.sh [FOLDER]      results go to FOLDER (default: examples/quickstart/out)
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="${1:-$here/out}"
build="${OMNIBAL_BUILD:-$root/build}"
steps="${OMNIBAL_QUICKSTART_STEPS:-1000}"

"$root/tools/scripts/setup.sh"
"$root/tools/scripts/build.sh" omnibal-compile omnibal-run
mkdir -p "$out"

echo
echo "== compile: the exported model becomes a program of two pipeline stages"
"$build/bin/omnibal-compile" "$here/model/model.onnx" --weights "$here/model" --tiles 10 --tokens 128 \
  --stages 2 --microbatches 12 --cpu native -o "$out/program"

echo
echo "== train: $steps steps of 12 micro-batches"
"$build/bin/omnibal-run" "$out/program" --weights "$here/model" \
  --data "$here"/data/train-*.tar --preprocess "$here/model/preprocessor_config.json" \
  --steps-file "$here/data/steps.jsonl" --steps "$steps" \
  --lr 3e-3 --schedule-lr cosine --warmup-steps 100 --min-lr-ratio 0.02 --beta1 0.9 --beta2 0.98 \
  --weight-decay 0.05 --clip 1.0 \
  --log "$out/run.jsonl" --trace "$out/trace.json" --save "$out/model"

echo
echo "== evaluate: pictures that training never saw"
"$build/bin/omnibal-run" "$out/program" --weights "$out/model" \
  --data "$here"/data/heldout-*.tar --preprocess "$here/model/preprocessor_config.json" --evaluate

python3 "$here/plot_loss.py" "$out/run.jsonl" "$out/loss.svg"
cat <<DONE

Written:
  $out/loss.svg     the loss of every step
  $out/trace.json   one step of both ranks; open it at https://ui.perfetto.dev
  $out/model        the trained model, as Transformers loads it
  $out/run.jsonl    a line a step
Ask the model (needs PyTorch and Transformers, see tools/scripts/setup.sh --python):
  python3 examples/quickstart/ask.py "$out/model"
DONE
