import { readFileSync } from 'node:fs';
import { compilerVariables } from './prerequisites.mjs';
import { firstLine } from './steps.mjs';

/**
 * gyp's definitions for the engine's CPU backend with 16-bit arithmetic (addon/binding.gyp), which the npm package does not have: it is
 * compiled where this processor and this compiler have the instructions. Without them the package's own is the fastest there is.
 *
 * @returns {string[]} for `node-gyp configure --`
 */
export function cpuBackendDefinitions() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return [];
  const instructions = JSON.parse(readFileSync('addon/cpu-fp16.json', 'utf8'));
  const has = new Set(/^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1].split(' ') ?? []);
  if (!Object.keys(instructions).every((name) => has.has(name))) return [];
  const flags = Object.values(instructions);
  const compiler = process.env.CXX ?? compilerVariables()?.CXX ?? 'g++';
  const [program, ...args] = compiler.split(' ');
  if (firstLine(program, [...args, ...flags, '-fsyntax-only', '-x', 'c++', '/dev/null']) === undefined) return [];
  return ['-Dcpu_fp16=1', `-Dcpu_fp16_flags=${flags.join(' ')}`];
}
