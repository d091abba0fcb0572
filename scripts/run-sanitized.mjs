// Runs test layers against the addon of `build.mjs --sanitize`. The sanitizers' runtime has to be in the process before Node.js
// starts, because the addon comes in later by dlopen.
//
//   node scripts/run-sanitized.mjs addon
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { firstLine, run, runSteps, StepError } from './steps.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const compiler = process.env.CXX ?? (process.platform === 'darwin' ? 'clang++' : 'g++');

await runSteps(async () => {
  const isMac = process.platform === 'darwin';
  const names = isMac ? ['libclang_rt.asan_osx_dynamic.dylib'] : ['libasan.so', 'libubsan.so'];
  const libraries = names
    .map((name) => firstLine(compiler, [`-print-file-name=${name}`]))
    .filter((path) => path?.includes('/'));
  if (libraries.length === 0)
    throw new StepError(`${compiler} has no sanitizer runtime`, 'install it: apt-get install g++');
  const env = {
    ...process.env,
    [isMac ? 'DYLD_INSERT_LIBRARIES' : 'LD_PRELOAD']: libraries.join(':'),
    // Node.js and V8 free nothing at exit, so leaks cannot be told from what they keep; and both catch signals of their own.
    ASAN_OPTIONS: 'detect_leaks=0:halt_on_error=1:abort_on_error=1:handle_segv=0:detect_odr_violation=0',
    UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1',
    PLIMSOLL_SANITIZED: '1',
  };
  process.exitCode = await run(process.execPath, [join(root, 'scripts', 'run-tests.mjs'), ...process.argv.slice(2)], {
    env,
    stdio: 'inherit',
  });
});
