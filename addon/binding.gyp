{
  # The engine's libraries are not linked: whichever engine directory is chosen at run time is opened by plimsoll_loader into the
  # process's global scope, and plimsoll_addon's undefined symbols resolve there. Only its headers are needed to build.
  'variables': {
    'engine_headers%': '<!(node -p "process.env.PLIMSOLL_ENGINE_HEADERS || require(\'path\').resolve(\'..\', \'.cache\', \'engine-headers\')")',
    # Empty, or e.g. "address,undefined" for a sanitizer build: node-gyp rebuild -- -Dsanitize=address
    'sanitize%': '',
    # 1: also the engine's CPU backend with 16-bit arithmetic, from its own source (scripts/cpu-backend.mjs says when).
    'cpu_fp16%': 0,
    'cpu_fp16_flags%': '',
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
    ['cpu_fp16==1', {
      'targets': [{
        # The npm package has no variant with 16-bit arithmetic, which takes two thirds of the time for a decode with long heads
        # (docs/benchmarks.md). The instructions are named, not the machine's own: src/shared/cpu-backend.ts asks for each of them
        # before it opens the file, which may have been copied elsewhere.
        'target_name': 'ggml_cpu_fp16',
        'type': 'shared_library',
        'product_name': 'ggml-cpu-fp16',
        # Sources must lie below this folder: scripts/build.mjs links the engine's here.
        'variables': { 'ggml': 'build/engine-source/ggml/src/ggml-cpu' },
        'sources': [
          'src/cpu-fp16.c',
          '<(ggml)/amx/amx.cpp',
          '<(ggml)/amx/mmq.cpp',
          '<(ggml)/arch/x86/quants.c',
          '<(ggml)/arch/x86/repack.cpp',
          '<(ggml)/binary-ops.cpp',
          'src/cpu-fp16-backend.cc',
          '<(ggml)/hbm.cpp',
          '<(ggml)/iqp.cpp',
          '<(ggml)/llamafile/sgemm.cpp',
          '<(ggml)/ops.cpp',
          '<(ggml)/quants.c',
          '<(ggml)/repack.cpp',
          '<(ggml)/traits.cpp',
          '<(ggml)/unary-ops.cpp',
          '<(ggml)/vec.cpp',
        ],
        'include_dirs': ['<(engine_headers)/ggml/include', '<(engine_headers)/ggml/src', '<(ggml)'],
        'defines': [
          '_GNU_SOURCE',
          'NDEBUG',
          'GGML_BACKEND_DL',
          'GGML_BACKEND_BUILD',
          'GGML_BACKEND_SHARED',
          'GGML_SHARED',
          'GGML_USE_CPU_REPACK',
          'GGML_USE_LLAMAFILE',
        ],
        'cflags!': ['-Wall', '-Wextra', '-fno-omit-frame-pointer', '-fno-strict-aliasing'],
        'cflags': ['-w', '-O3', '<!@(echo <(cpu_fp16_flags))'],
        'libraries': ['-lm', '-lpthread'],
      }],
    }],
  ],
}
