# TensorRT-LLM with the emitter. The context is the repository.
ARG IMAGE=nvcr.io/nvidia/tensorrt-llm/release:latest
FROM ${IMAGE}
COPY emitter/python /tmp/emitter
RUN pip install --no-deps /tmp/emitter && rm -r /tmp/emitter
