# `make` lists what there is. The work is done by scripts/*.mjs, which also run without make.
.DEFAULT_GOAL := help
.PHONY: help tools test-tools install build serve test test-models $(addprefix test-,unit addon pipeline http download supervisor model tight conformance) coverage lint format \
	engine engine-cuda peer bench-pipeline bench-simulate bench-serve bench-cpu bench-page bench-startup bench-tight bench-pressure bench-prediction bench-prediction-device bench-line bench-speculation conformance sanitize clean

NODE ?= node
# `tight` takes minutes on two cores and is asked for by itself: make test-tight.
LAYERS := unit addon pipeline http download supervisor model conformance

# Without Node.js every target would only say "node: not found".
ifeq ($(shell command -v $(NODE) 2>/dev/null),)
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),help)),)
$(error Node.js is missing; install 20.19 or newer: https://nodejs.org/en/download)
endif
endif

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

tools:
	@$(NODE) scripts/check-tools.mjs build

test-tools:
	@$(NODE) scripts/check-tools.mjs test

install: ## npm packages, as the lock file says; nothing to do when it did not change
	@$(NODE) scripts/install.mjs

build: tools install ## the addon and dist/; `node dist/main.js` serves afterwards
	@$(NODE) scripts/build.mjs

serve: build ## install, build and serve on 127.0.0.1:30000; flags in ARGS="--model …"
	@exec $(NODE) dist/main.js $(ARGS)

test: test-tools build test-models lint ## everything: build, models for tests, lint, all test layers
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) scripts/run-tests.mjs $(LAYERS)

test-unit: install ## the tests that need no addon
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) scripts/run-tests.mjs unit

test-addon: ## the addon's tests
test-pipeline: ## rings and worker threads, with the fake engine and with a model
test-http: ## the HTTP interface
test-download: ## fetching models, from a local server
test-supervisor: ## restarts after crashes, and the remembered line
test-model: ## greedy equality and the like, with real weights
test-tight: ## inside a small memory group; skipped where none can be made
test-conformance: ## the load line's vectors
$(addprefix test-,tight $(filter-out unit,$(LAYERS))): build test-models
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) scripts/run-tests.mjs $(@:test-%=%)

test-models: build ## fetch the models that the tests use, once
	@$(NODE) scripts/fetch-test-models.mjs

coverage: install ## coverage of src/shared by the tests that need no addon; fails below the thresholds
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) node_modules/c8/bin/c8.js $(NODE) scripts/run-tests.mjs unit conformance

lint: install ## check style and common mistakes
	@$(NODE) node_modules/@biomejs/biome/bin/biome check --error-on-warnings .

format: install ## format in place
	@$(NODE) node_modules/@biomejs/biome/bin/biome check --write .

engine: ## build the engine for this machine: native flags, RPC, CUDA when nvcc is there
	@$(NODE) scripts/build-engine.mjs engine

engine-cuda: install ## install the prebuilt CUDA engine (Linux x64, 180 MB)
	@$(NODE) scripts/install-cuda-engine.mjs

peer: ## build llama-server, llama-bench and llama-batched-bench of the same version
	@$(NODE) scripts/build-engine.mjs peer

bench-pipeline: install ## steps and tokens a second through the threads, with the fake engine
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) build/bench/pipeline/run.js $(ARGS)

# Another folder with the peer's programs is taken as it is.
PEER := $(if $(PLIMSOLL_PEER_DIR),,peer)

bench-simulate: install ## machines that are not here: docs/simulation.md and its pictures
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) build/bench/simulate/run.js $(ARGS)

bench-serve: test-models $(PEER) ## against llama-server, on the same machine in the same run
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/serve/run.js $(ARGS)

bench-cpu: test-models $(PEER) ## every workload on the CPU, against llama-server as it comes and with its best flags
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/cpu-table/run.js $(ARGS)

bench-page: install ## docs/benchmarks.md and its pictures from the stored results
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) build/bench/measure/write-page.js

bench-startup: test-models ## from start to ready, and memory beyond weights, KV and compute (Linux)
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/startup/run.js $(ARGS)

bench-tight: test-models $(PEER) ## inside small memory groups, beside llama-server (Linux, root)
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/tight/run.js $(ARGS)

bench-pressure: test-models ## memory that others take, long loads, contexts that move and go (Linux, root)
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/pressure/run.js $(ARGS)

bench-prediction: test-models ## planned bytes against what the process takes, over a grid of contexts (Linux)
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/prediction/run.js $(ARGS)

bench-prediction-device: test-models ## the same against the reading of a GPU with memory of its own: ARGS="MODEL [DEVICE]"
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/prediction/device-trial.js $(ARGS)

bench-line: test-models ## what gate, ledger and readings cost steady decoding
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/line-cost/run.js $(ARGS)

bench-speculation: test-models ## one client with drafts from the text so far, and without
	@$(NODE) scripts/build.mjs --tests
	@$(NODE) build/bench/speculation/run.js $(ARGS)

conformance: install ## the analytic planner against vectors; VECTORS=file for others than ours
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) build/test/conformance/run.js $(VECTORS)

sanitize: test-models ## the addon's tests with the address and undefined-behaviour sanitizers
	@$(NODE) scripts/build.mjs --tests --without-addon
	@$(NODE) scripts/build.mjs --sanitize
	@$(NODE) scripts/run-sanitized.mjs addon

clean: ## remove what a build made; the cache folder with its models stays
	rm -rf addon/build build dist .tap
