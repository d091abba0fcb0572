{
  # The engine's libraries are not linked: whichever engine directory is chosen at run time is opened by plimsoll_loader into the
  # process's global scope, and plimsoll_addon's undefined symbols resolve there. Only its headers are needed to build.
  'variables': {
    'engine_headers%': '<!(node -p "process.env.PLIMSOLL_ENGINE_HEADERS || require(\'path\').resolve(\'..\', \'.cache\', \'engine-headers\')")',
    # Empty, or e.g. "address,undefined" for a sanitizer build: node-gyp rebuild -- -Dsanitize=address
    'sanitize%': '',
    # Compiler flags: also the engine's CPU backend, from its own source (scripts/cpu-backend.mjs says when).
    'cpu_backend_flags%': '',
  },
  'target_defaults': {
    'include_dirs': ['<!(node -p "require(\'node-addon-api\').include_dir")'],
    'defines': ['NAPI_VERSION=9', 'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS', 'NAPI_CPP_EXCEPTIONS'],
    'cflags': ['-fvisibility=hidden', '-Wall', '-Wextra', '-Wno-unused-parameter'],
    'cflags!': ['-fno-exceptions', '-O2'],
    'cflags_cc!': ['-fno-exceptions', '-fno-rtti', '-std=gnu++17', '-std=gnu++20', '-std=gnu++14'],
    'cflags_cc': ['-std=c++17', '-O3', '-fvisibility-inlines-hidden'],
    'conditions': [
      ['sanitize!=""', {
        'cflags': ['-fsanitize=<(sanitize)', '-fno-omit-frame-pointer', '-g'],
        'ldflags': ['-fsanitize=<(sanitize)'],
      }],
      ['OS=="linux"', {
        # Node unloads an addon when the worker that loaded it ends, while the engine's threads may still call into it.
        'ldflags': ['-Wl,-z,nodelete', '-Wl,-z,noexecstack'],
      }],
      ['OS=="mac"', {
        'xcode_settings': {
          'GCC_ENABLE_CPP_EXCEPTIONS': 'YES',
          'GCC_ENABLE_CPP_RTTI': 'YES',
          'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES',
          'GCC_OPTIMIZATION_LEVEL': '3',
          'CLANG_CXX_LANGUAGE_STANDARD': 'c++17',
          'CLANG_CXX_LIBRARY': 'libc++',
          'MACOSX_DEPLOYMENT_TARGET': '14.0',
          'OTHER_LDFLAGS': ['-Wl,-undefined,dynamic_lookup'],
        },
      }],
    ],
  },
  'targets': [
    {
      'target_name': 'plimsoll_loader',
      'sources': ['src/loader.cc'],
      'conditions': [['OS=="linux"', { 'libraries': ['-ldl'] }]],
    },
    {
      'target_name': 'plimsoll_addon',
      'sources': [
        'src/addon.cc',
        'src/backend.cc',
        'src/cell-counter.cc',
        'src/chat-template.cc',
        'src/context.cc',
        'src/devices.cc',
        'src/engine.cc',
        'src/file-cache.cc',
        'src/grammar.cc',
        'src/grammar-check.cc',
        'src/grammar-rules.cc',
        'src/layout-export.cc',
        'src/load-error.cc',
        'src/log-queue.cc',
        'src/logits-kernels.cc',
        'src/memory-measure.cc',
        'src/model.cc',
        'src/penalties.cc',
        'src/quantize.cc',
        'src/record.cc',
        'src/record-check.cc',
        'src/sample-logits.cc',
        'src/sampler.cc',
        'src/sampler-pool.cc',
        'src/sampling-parameters.cc',
        'src/selection.cc',
        'src/state-memory.cc',
        'src/step-batch.cc',
        'src/step.cc',
        'src/stream-state.cc',
        'src/vocabulary.cc',
      ],
      'include_dirs': [
        '<(engine_headers)/include',
        '<(engine_headers)/ggml/include',
        '<(engine_headers)/common',
        '<(engine_headers)/src',
        '<(engine_headers)/vendor',
      ],
      'defines': ['LLAMA_SHARED', 'GGML_SHARED', 'GGML_BACKEND_SHARED'],
      'conditions': [
        ['OS=="linux"', { 'sources': ['src/host-cgroup-linux.cc', 'src/host-readings-linux.cc'], 'libraries': ['-lpthread'] }],
        ['OS=="mac"', { 'sources': ['src/host-readings-macos.c'] }],
      ],
    },
  ],
  'conditions': [
    ['cpu_backend_flags!=""', {
      # What the npm package has no variant for (docs/benchmarks.md). The instructions are named, not the machine's own:
      # src/shared/cpu-backend.ts asks for each of them before it opens a file, which may have been copied elsewhere.
      'targets': [
        {
          'target_name': 'ggml_cpu_tuned',
          'product_name': 'ggml-cpu-tuned',
          'includes': ['cpu-backend.gypi'],
          'cflags': ['<!@(echo <(cpu_backend_flags))', '-mno-avx512fp16'],
        },
        {
          'target_name': 'ggml_cpu_fp16',
          'product_name': 'ggml-cpu-fp16',
          'includes': ['cpu-backend.gypi'],
          'cflags': ['<!@(echo <(cpu_backend_flags))'],
        },
      ],
    }],
  ],
}
