#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
python tools/checkpoint/convert.py --model-type GPT --loader llama --saver megatron \
  --target-tensor-parallel-size 4 --num-layers 32 --hidden-size 4096
