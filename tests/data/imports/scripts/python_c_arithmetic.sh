#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
NODES=4
GPUS=8
WORLD=$(($NODES * $GPUS))
GBS=$(python3 -c "print($WORLD * 4)")
HALF=$(echo "$GBS / 2" | bc)
torchrun --nproc_per_node $GPUS --nnodes $NODES pretrain_gpt.py --num-layers 24 \
  --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 2 --global-batch-size $HALF --vocab-size 51200 --bf16
