// What a build needs from the machine, each missing thing named in one line with the command that brings it.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { firstLine, StepError } from './steps.mjs';

const leastNode = [20, 19];
const isMac = process.platform === 'darwin';

function nodeProblem() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1])) return undefined;
  return `Node.js ${process.versions.node} is too old; install ${leastNode.join('.')} or newer: https://nodejs.org/en/download`;
}

/**
 * Programs for the compiler variables that node-gyp and CMake read. GNU make alone would only ever try g++.
 *
 * @returns {{ CC?: string, CXX?: string } | undefined} nothing set when the defaults work, `undefined` when there is no compiler
 */
export function compilerVariables() {
  if (process.env.CXX) return firstLine(process.env.CXX.split(' ')[0], ['--version']) ? {} : undefined;
  if (isMac) return firstLine('xcode-select', ['-p']) ? {} : undefined;
  if (firstLine('g++', ['--version'])) return {};
  return firstLine('clang++', ['--version']) ? { CC: 'clang', CXX: 'clang++' } : undefined;
}

function hasPython() {
  const { PYTHON, NODE_GYP_FORCE_PYTHON, npm_config_python } = process.env;
  const names = [NODE_GYP_FORCE_PYTHON, npm_config_python, PYTHON, 'python3', 'python'];
  return names.some((name) => name && firstLine(name, ['--version'])?.startsWith('Python 3'));
}

/**
 * Throws one error for everything that is missing, a line each.
 *
 * @param {{ compiler?: boolean, python?: boolean, pip?: boolean, git?: boolean, cmake?: boolean }} needs
 */
export function requirePrerequisites(needs) {
  const install = (linux, mac) => `install it: ${isMac ? mac : `apt-get install ${linux}`}`;
  const xcode = 'xcode-select --install';
  const problems = [nodeProblem()];
  if (needs.compiler) {
    if (!compilerVariables()) problems.push(`a C++ compiler is missing; ${install('g++', xcode)}`);
    if (!firstLine('make', ['--version'])) problems.push(`make is missing; ${install('make', xcode)}`);
  }
  if (needs.python && !hasPython()) problems.push(`Python 3 is missing; ${install('python3', xcode)}`);
  if (needs.pip && !firstLine('python3', ['-m', 'pip', '--version'])) {
    problems.push(`pip for Python 3 is missing; ${install('python3-pip', xcode)}`);
  }
  if (needs.git && !firstLine('git', ['--version'])) problems.push(`git is missing; ${install('git', xcode)}`);
  if (needs.cmake && !firstLine('cmake', ['--version']))
    problems.push(`CMake is missing; ${install('cmake', 'brew install cmake')}`);
  const found = problems.filter(Boolean);
  if (found.length > 0) throw new StepError(found.join('\nerror: '));
}

/**
 * The folder whose `include/node` has the headers of the very Node.js that runs, or `undefined`. Official archives, the macOS
 * installer, nvm, fnm, Homebrew, NodeSource and the Docker images all have them beside the executable; where a distribution
 * splits them off, or they are of another version, node-gyp has to download them.
 */
export function nodeHeadersFolder() {
  const prefix = dirname(dirname(process.execPath));
  const versionFile = join(prefix, 'include', 'node', 'node_version.h');
  if (!existsSync(versionFile) || !existsSync(join(prefix, 'include', 'node', 'node_api.h'))) return undefined;
  const text = readFileSync(versionFile, 'utf8');
  const number = (name) => new RegExp(`#define NODE_${name}_VERSION (\\d+)`).exec(text)?.[1];
  const version = [number('MAJOR'), number('MINOR'), number('PATCH')].join('.');
  return version === process.versions.node ? prefix : undefined;
}
