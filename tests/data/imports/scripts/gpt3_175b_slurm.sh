#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=gpt3
#SBATCH --nodes=128
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
set -euo pipefail
NAME="gpt3-175b"
DIR=$(cd "$(dirname "$0")" && pwd)
DATETIME=`date +'%y-%m-%d_%H-%M-%S'`
mkdir -p $DIR/logs
options=" \
    --sequence-parallel \
    --tensor-model-parallel-size 8 \
    --pipeline-model-parallel-size 16 \
    --num-layers 96 \
    --hidden-size 12288 \
    --num-attention-heads 96 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size 1 \
    --global-batch-size 1536 \
    --train-samples 146484375 \
    --save-interval 1000 \
    --vocab-size 51200 \
    --bf16"
run_cmd="python -u ${DIR}/pretrain_gpt.py $@ ${options}"
srun -l --output=$DIR/logs/%x_%j_$DATETIME.log sh -c "${run_cmd}"
set +x
