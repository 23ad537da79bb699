#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
width_of() { echo $(( $1 * 64 )); }
HEADS=16
WIDTH=$(width_of $HEADS)
PROG=pretrain_gpt.py
LAUNCH="torchrun --nproc_per_node 4 --nnodes 1"
$LAUNCH ${PROG%.py}.py --num-layers 24 --hidden-size $WIDTH --num-attention-heads $HEADS \
  --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 \
  --vocab-size 51200 --bf16
