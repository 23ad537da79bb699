#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
torchrun \
  --nproc_per_node 8 --nnodes 4 \
  pretrain_gpt.py \
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 51200 \
  --micro-batch-size 4 --global-batch-size 256 \
  --fp16 # --bf16 --tensor-model-parallel-size 4
# torchrun pretrain_gpt.py --num-layers 48
