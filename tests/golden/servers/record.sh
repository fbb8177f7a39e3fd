#!/bin/sh
# Records what a vLLM answers that serves the tales target as `tales` (scripts/vllm.mjs starts one). usage: record.sh URL
# A text of 40 tokens is verified twice: the second time the first of them come from the prefix cache, and what is said of those places
# is whatever was in memory.
set -eu
cd "$(dirname "$0")"
ask() { curl -s "$1" -H 'Content-Type: application/json' -d "$2"; }
text="[0,$(seq -s, 100 138)]"
verification='"sampling_params":{"max_tokens":1,"temperature":0,"detokenize":false,"prompt_logprobs":1,"skip_reading_prefix_cache":false}'
curl -s "$1/v1/models" | sed 's|"root":"[^"]*"|"root":"tales"|' > vllm_models.json
ask "$1/tokenize" '{"model":"tales","prompt":"Once upon a time","add_special_tokens":false}' > vllm_tokenize.json
ask "$1/inference/v1/generate" "{\"model\":\"tales\",\"token_ids\":$text,$verification}" > vllm_verified.json
ask "$1/inference/v1/generate" "{\"model\":\"tales\",\"token_ids\":$text,$verification}" > vllm_cached.json
ask "$1/inference/v1/generate" "{\"model\":\"tales\",\"token_ids\":[2457,724,261,517],\"stream\":true,\"sampling_params\":{\"max_tokens\":3,\"temperature\":0,\"detokenize\":false}}" > vllm_stream.txt
ask "$1/v1/completions" '{"model":"tales","prompt":[2457,724,261,517],"max_tokens":1,"temperature":0,"prompt_logprobs":1,"return_token_ids":true}' > vllm_completions.json
ask "$1/v1/completions" '{"model":"tales","prompt":[2457,724,261,517],"max_tokens":3,"temperature":0,"stream":true,"return_token_ids":true}' > vllm_completions_stream.txt
ask "$1/inference/v1/generate" '{"model":"none","token_ids":[1],"sampling_params":{"max_tokens":1}}' > vllm_no_model.json
ask "$1/inference/v1/generate" '{"model":"tales","token_ids":[99999],"sampling_params":{"max_tokens":1}}' > vllm_bad_token.json
