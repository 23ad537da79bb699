#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ZeRO by a file that the script writes.
BASE_PATH=/data
DS_CONFIG=ds_config.json
TP=2
PP=1
NLAYERS=24
HIDDEN=1024
GLOBAL_BATCH=64
MICRO_BATCH=4
ZERO_STAGE=1
OUTPUT_DIR=ds_z${ZERO_STAGE}_nl${NLAYERS}_hs${HIDDEN}
cat > $DS_CONFIG <<END
{ "train_batch_size" : $GLOBAL_BATCH,
  "train_micro_batch_size_per_gpu": $MICRO_BATCH,
  "zero_optimization": { "stage": $ZERO_STAGE },
  "fp16": { "enabled": true } }
END
ds_args=""
ds_args=" --deepspeed ${ds_args}"
ds_args=" --deepspeed_config=$DS_CONFIG ${ds_args}"
ds_args=" --zero-stage=$ZERO_STAGE ${ds_args}"
deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py \
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size $PP \
    --num-layers $NLAYERS \
    --hidden-size $HIDDEN \
    --num-attention-heads 16 \
    --seq-length 1024 \
    --max-position-embeddings 1024 \
    --micro-batch-size $MICRO_BATCH \
    --global-batch-size $GLOBAL_BATCH \
    --vocab-size 51200 \
    --fp16 \
    $ds_args \
    --exit-interval 5000 | tee ${OUTPUT_DIR}/output.log
