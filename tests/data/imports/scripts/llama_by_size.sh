#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -e
ENV=$1
if [ $ENV = one ]; then
  NNODES=1
  GPUS_PER_NODE=`python -c "import torch; print(torch.cuda.device_count())"`
elif [ $ENV = many ]; then
  NNODES=${WORLD_SIZE}
  GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
fi
MODEL_SIZE=$2
BATCH_SIZE=$3
GLOBAL_BATCH_SIZE=$4
LR=$5
SEQ_LEN=$6
PR=$7
TP=$8
PP=$9
AC=${10}
DO=${11}
SAVE_INTERVAL=${12}
OUTPUT=${13}
if [ -z ${MP_VP} ]; then
  vp_options=""
else
  vp_options=" --num-layers-per-virtual-pipeline-stage ${MP_VP}"
fi
if [ $MODEL_SIZE = 7B ]; then
NUM_LAYERS=32
HIDDEN_SIZE=4096
HEADS=32
FFN=11008
elif [ $MODEL_SIZE = 13B ]; then
NUM_LAYERS=40
HIDDEN_SIZE=5120
HEADS=40
FFN=13824
fi
if [ $AC = full ]; then
  ac_options=" --recompute-method uniform --recompute-num-layers 1 --recompute-granularity full"
elif [ $AC = sel ]; then
  ac_options=" --recompute-activations"
elif [ $AC = none ]; then
  ac_options=" "
fi
if [ $PR = fp16 ]; then
  pr_options=" --fp16"
elif [ $PR = bf16 ]; then
  pr_options=" --bf16"
fi
if [ $DO = true ]; then
  do_options=" --use-distributed-optimizer"
elif [ $DO = false ]; then
  do_options=" "
fi
TP_OVERLAP=$(( ($TP > 1) ? 1 : 0 ))
if [ $TP_OVERLAP -eq 1 ]; then
  sp_options=" --sequence-parallel"
else
  sp_options=""
fi
NAME="llama-${MODEL_SIZE}-lr-${LR}-tp-${TP}-$(date "+%Y.%m.%d")"
mkdir -p "${OUTPUT}/log/"
dist="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank ${RANK} --master_port $(shuf -n 1 -i 10000-65535)"
megatron_options=" \
        --save ${OUTPUT}/${NAME} \
        --lr ${LR} \
        --micro-batch-size ${BATCH_SIZE} \
        --global-batch-size ${GLOBAL_BATCH_SIZE} \
        --num-layers ${NUM_LAYERS} \
        --hidden-size ${HIDDEN_SIZE} \
        --num-attention-heads ${HEADS} \
        --ffn-hidden-size ${FFN} \
        --seq-length ${SEQ_LEN} \
        --max-position-embeddings ${SEQ_LEN} \
        --save-interval ${SAVE_INTERVAL} \
        --tensor-model-parallel-size ${TP} \
        --pipeline-model-parallel-size ${PP} \
        --swiglu --normalization RMSNorm --disable-bias-linear \
        --untie-embeddings-and-output-weights --position-embedding-type rope \
        --vocab-size 32000 --make-vocab-size-divisible-by 1 \
        "
run_cmd="torchrun $dist ../llama/pretrain.py
 ${megatron_options} ${pr_options} ${ac_options} ${do_options} ${sp_options} ${vp_options}"
echo ${run_cmd}
eval ${run_cmd}
set +x
