#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
if [ $# -lt 2 ]; then
  echo "usage: $0 LAYERS GLOBAL_BATCH [--fp16]"
  exit 1
fi
LAYERS=$1
GBS=$2
shift 2
PRECISION=--bf16
while [ $# -gt 0 ]; do
  case $1 in
    --fp16) PRECISION=--fp16; shift ;;
    *) echo "unknown $1"; exit 1 ;;
  esac
done
if [ ! -d /data/corpus ]; then
  echo "no data"; exit 1
fi
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers $LAYERS --hidden-size 1024 \
  --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 \
  --global-batch-size $GBS --vocab-size 51200 $PRECISION --data-path $DATA_PATH 2>&1 | tee log.txt
