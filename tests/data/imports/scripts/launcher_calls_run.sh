#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts the script beside it with its arguments.
export WORLD_SIZE=2
export KUBERNETES_CONTAINER_RESOURCE_GPU=8
sh llama_by_size.sh many 13B 1 128 1e-5 4096 bf16 2 1 none true 1000 /out
