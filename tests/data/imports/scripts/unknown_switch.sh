#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
EXTRA=""
if [ "${USE_FP8:-0}" = "1" ]; then EXTRA="$EXTRA --fp8-format hybrid"; fi
if [ "$PROFILE" = yes ]; then
  EXTRA="$EXTRA --profile --profile-step-start 10"
fi
if [ -n "$LOAD" ]; then EXTRA="$EXTRA --load $LOAD"; fi
HOSTS=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
python3 -m torch.distributed.run --nproc_per_node=8 --nnodes=2 --rdzv_endpoint=$HOSTS:29500 \
  pretrain_gpt.py --num-layers 16 --hidden-size 2048 --num-attention-heads 32 --seq-length 2048 \
  --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 128 --bf16 $EXTRA_ARGS \
  --vocab-size 51200 ${EXTRA} --log-interval ${LOG_INTERVAL}
