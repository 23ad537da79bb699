#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
PP=8; VPP=2; LAYERS=32
PER=$(( LAYERS / PP / VPP ))
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \
  --num-layers ${LAYERS} --num-layers-per-virtual-pipeline-stage ${PER} \
  --pipeline-model-parallel-size ${PP} --tensor-model-parallel-size 4 \
  --hidden-size 6144 --num-attention-heads 48 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 1 --global-batch-size 128 --fp16 --vocab-size 51200
