#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A script as people write them, after Megatron-LM's examples; the sizes are Llama 3 70B's.
#SBATCH --nodes=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_NVLS_ENABLE=0

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
export WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=8
PP=4

DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank 0 --master_addr localhost --master_port 6000
"

MODEL_ARGS=(
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000
    --swiglu --normalization RMSNorm --norm-epsilon 1e-5
    --untie-embeddings-and-output-weights --disable-bias-linear
    --attention-dropout 0.0 --hidden-dropout 0.0
)

TRAINING="--micro-batch-size 1 --global-batch-size 128 --bf16 --lr 1.5e-4"
TRAINING+=" --train-iters 500000 --clip-grad 1.0 --weight-decay 0.1"

# What follows is the layout.
PARALLEL=(--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size "${PP}")
PARALLEL+=(--num-layers-per-virtual-pipeline-stage 5 --sequence-parallel
           --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    $TRAINING ${PARALLEL[@]} \
    --tokenizer-type NullTokenizer --vocab-size 128255 \
    --save /checkpoints --save-interval 500 --mock-data \
    --recompute-activations --attention-backend fused --use-flash-attn \
    --frobnicate 3 2>&1 | tee train.log
