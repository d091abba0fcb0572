import { readFileSync } from 'node:fs';
import { compilerVariables } from './prerequisites.mjs';
import { firstLine } from './steps.mjs';

/**
 * gyp's definitions for the engine's CPU backend (addon/cpu-backend.gypi), compiled here where this processor and this compiler have
 * instructions that the npm package's variants leave out. Everywhere else one of those is as fast.
 *
 * @returns {string[]} for `node-gyp configure --`
 */
export function cpuBackendDefinitions() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return [];
  const instructions = JSON.parse(readFileSync('addon/cpu-backend.json', 'utf8'));
  const has = new Set(/^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1].split(' ') ?? []);
  if (!Object.keys(instructions).every((name) => has.has(name))) return [];
  const flags = Object.values(instructions);
  const compiler = process.env.CXX ?? compilerVariables()?.CXX ?? 'g++';
  const [program, ...args] = compiler.split(' ');
  if (firstLine(program, [...args, ...flags, '-fsyntax-only', '-x', 'c++', '/dev/null']) === undefined) return [];
  return [`-Dcpu_backend_flags=${flags.join(' ')}`];
}
