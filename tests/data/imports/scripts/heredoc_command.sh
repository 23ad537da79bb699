#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
read -r -d '' CMD <<EOM
pretrain_gpt.py --num-layers 36 --hidden-size 1280 --num-attention-heads 20
 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 51200
 --micro-batch-size 8 --global-batch-size 512 --bf16
EOM
python -m torch.distributed.launch --nproc_per_node 8 --nnodes 8 --node_rank $RANK $CMD
