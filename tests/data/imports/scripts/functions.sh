#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Settings by functions, as schedulers' helpers have them.
set_model() {
  local size=$1
  case "$size" in
    small) LAYERS=24; WIDTH=2048; HEADS=16 ;;
    large|big)
      LAYERS=48
      WIDTH=8192
      HEADS=64
      ;;
    *)
      echo "unknown size $size" >&2
      exit 1
      ;;
  esac
}
layout() {
  TP=$1
  PP=${2:-1}
}
set_model "${SIZE:-small}"
layout 2 4
GPUS=$((TP * PP * 4))
ARGS=()
ARGS+=(--num-layers "$LAYERS" --hidden-size "$WIDTH")
ARGS+=(--num-attention-heads "$HEADS")
ARGS+=("--seq-length 4096" "--max-position-embeddings 4096")
[[ "$LAYERS" -ge 48 ]] && ARGS+=(--recompute-activations)
for flag in bf16 use-distributed-optimizer; do
  ARGS+=("--$flag")
done
[ "$SLURM_LOCALID" = 0 ] || export WANDB_MODE=offline
torchrun --nproc-per-node 8 --nnodes $((GPUS / 8)) pretrain_gpt.py "${ARGS[@]}" \
  --micro-batch-size 1 --global-batch-size $((16 * PP)) --vocab-size 51200 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP
