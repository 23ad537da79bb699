#! /bin/bash
# SPDX-License-Identifier: Apache-2.0
# Of the time when there was one kind of model parallelism.
WORLD_SIZE=8
DISTRIBUTED_ARGS="--nproc_per_node $WORLD_SIZE --nnodes 4 --node_rank 0"
python -m torch.distributed.launch $DISTRIBUTED_ARGS \
       pretrain_gpt2.py \
       --model-parallel-size 8 \
       --num-layers 40 \
       --hidden-size 1536 \
       --num-attention-heads 16 \
       --batch-size 8 \
       --seq-length 1024 \
       --max-position-embeddings 1024 \
       --vocab-size 51200 \
       --checkpoint-activations \
       --DDP-impl torch \
       --fp16
