#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
HERE="$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )"
source $HERE/sourced_sizes.inc
torchrun --nproc_per_node ${GPUS_PER_NODE} --nnodes ${NNODES} pretrain_gpt.py ${SIZES} \
  --micro-batch-size 2 --global-batch-size 64 --fp16
