#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
torchrun --nproc_per_node ${GPUS_PER_NODE} --nnodes ${NNODES} --master_addr ${MASTER_ADDR} \
  pretrain_gpt.py --num-layers ${LAYERS} --hidden-size 4096 --num-attention-heads 32 \
  --seq-length ${SEQ:?length of a sequence} --max-position-embeddings 4096 --micro-batch-size 1 \
  --global-batch-size ${GBS} --vocab-size 51200 --bf16 --seed ${SEED} --save ${OUT}
