#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
NLAYERS=24
TP=1
EP=8
MODEL_ARGS=(
  --num-layers $NLAYERS --hidden-size 2048 --num-attention-heads 16 --ffn-hidden-size 8192
  --group-query-attention --num-query-groups 4 --kv-channels 128
  --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope
  --untie-embeddings-and-output-weights --vocab-size 131072 --make-vocab-size-divisible-by 1
  --seq-length 4096 --max-position-embeddings 4096
)
MOE_ARGS=(
  --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408
  --moe-layer-freq ([0]*1+[1]*23)
  --moe-token-dispatcher-type alltoall --moe-grouped-gemm
  --expert-model-parallel-size $EP
)
torchrun --nproc_per_node=8 --nnodes=4 pretrain_gpt.py ${MODEL_ARGS[@]} ${MOE_ARGS[*]} \
  --tensor-model-parallel-size ${TP} --micro-batch-size 1 --global-batch-size 256 --bf16 \
  --use-distributed-optimizer
