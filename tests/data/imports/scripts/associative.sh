#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
declare -A LAYERS=([1b]=16 [3b]=28 [8b]=32)
declare -A WIDTH
WIDTH[1b]=2048
WIDTH[3b]=3072
WIDTH[8b]=4096
declare -A FFN=( ["1b"]=8192 ["3b"]=8192 ["8b"]=14336 )
HEADS=(32 24 32)
SIZE=${SIZE:=8b}
index=2
NODES=${SLURM_JOB_NUM_NODES:-2}
GBS=$(expr 64 \* $NODES)
CMD="pretrain_gpt.py --num-layers ${LAYERS[$SIZE]} --hidden-size ${WIDTH[$SIZE]} \
 --ffn-hidden-size ${FFN[$SIZE]} --num-attention-heads ${HEADS[$index]} \
 --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
 --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope \
 --seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256 \
 --make-vocab-size-divisible-by 1 --micro-batch-size 1 --global-batch-size $GBS --bf16 \
 --tensor-model-parallel-size 2 --sequence-parallel"
bash -c "torchrun --nproc_per_node 8 --nnodes $NODES $CMD"
