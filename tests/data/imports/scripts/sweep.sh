#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
export NCCL_DEBUG=WARN
for MBS in 2 4; do
  for SEQ in 4096; do
    torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
      --num-attention-heads 32 --ffn-hidden-size 16384 --seq-length $SEQ \
      --max-position-embeddings $SEQ --micro-batch-size $MBS --global-batch-size $((MBS*32)) \
      --vocab-size 51200 --bf16 --tensor-model-parallel-size 4
  done
done
