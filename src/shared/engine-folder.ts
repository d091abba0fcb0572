/**
 * Finds the folder with llama.cpp's libraries, and the libraries in it, whatever build they come from: the npm packages
 * (`libllama.v0.4.0.so`, `libllama.cuda.v0.4.0.so`), a build from source (`libllama.so.0`), Homebrew (`libllama.dylib`).
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { EngineError } from './engine.js';

export interface EngineFolder {
  path: string;
  /** Full paths, in the order in which they depend on each other. */
  libraries: string[];
  /** Backends that `libggml` was linked to: opened before it, so that it finds them whatever its search path says. */
  linkedBackends: string[];
  /** Where backends lie that are loaded at run time; empty when they are linked in. */
  backendPath: string;
}

/** Each needs those before it. */
const ROLES = ['ggml-base', 'ggml', 'llama', 'llama-common'] as const;

/** GPU packages come first: they are there only when somebody asked for them. */
function packageNames(platform: string, architecture: string): string[] {
  if (platform === 'darwin') return architecture === 'arm64' ? ['mac-arm64-metal'] : ['mac-x64'];
  const base = `${platform}-${architecture}`;
  return [`${base}-cuda`, `${base}-vulkan`, base];
}

function packageFolder(name: string): string | null {
  try {
    const entry = createRequire(import.meta.url).resolve(`@node-llama-cpp/${name}`);
    const folder = join(dirname(dirname(entry)), 'bins', name);
    return existsSync(folder) ? folder : null;
  } catch {
    return null;
  }
}

/** The library of one role: `lib<role>`, anything between dots, `.so` or `.dylib`, perhaps a version. */
function findLibrary(folder: string, names: string[], role: string): string | null {
  const pattern = new RegExp(`^lib${role}(\\.[^.]+)*?\\.(so|dylib)(\\.\\d+)*$`);
  const matches = names.filter((name) => pattern.test(name) && existsSync(join(folder, name)));
  // A build leaves links of several lengths to one file; the shortest name is the one that is always there.
  matches.sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  return matches[0] === undefined ? null : realpathSync(join(folder, matches[0]));
}

/** @throws EngineError engine_not_found when a library is missing. */
export function readEngineFolder(path: string): EngineFolder {
  if (!existsSync(path)) {
    throw new EngineError(
      'engine_not_found',
      `there is no folder ${path}; PLIMSOLL_ENGINE_DIR must name one with a llama.cpp build`,
    );
  }
  const names = readdirSync(path);
  const libraries = ROLES.map((role) => {
    const library = findLibrary(path, names, role);
    if (library === null) {
      throw new EngineError(
        'engine_not_found',
        `${path} has no lib${role}; it must hold llama.cpp's shared libraries, lib${ROLES.join(', lib')}`,
      );
    }
    return library;
  });
  const linked = linkedBackends(names).map((name) => join(path, name));
  const hasModules = linked.length === 0 && names.some((name) => /^libggml-(?!base\b)[^.]+\.(so|dylib)$/.test(name));
  return { path, libraries, linkedBackends: linked, backendPath: hasModules ? path : '' };
}

/** What can be linked to carries its version in its name (`libggml-cuda.so.0`, `libggml-metal.0.dylib`); modules do not. */
function linkedBackends(names: string[]): string[] {
  return names.filter((name) => /^libggml-(?!base\b)[^.]+(\.so\.\d+|\.\d+\.dylib)$/.test(name)).sort();
}

/**
 * The folder that PLIMSOLL_ENGINE_DIR names, else the one of this platform's npm package.
 * @throws EngineError engine_not_found.
 */
export function findEngineFolder(environment: NodeJS.ProcessEnv = process.env): EngineFolder {
  const given = environment['PLIMSOLL_ENGINE_DIR'];
  if (given !== undefined && given !== '') return readEngineFolder(resolve(given));
  const names = packageNames(process.platform, process.arch);
  for (const name of names) {
    const folder = packageFolder(name);
    if (folder !== null) return readEngineFolder(folder);
  }
  throw new EngineError(
    'engine_not_found',
    `llama.cpp for ${process.platform}-${process.arch} is not installed; run "npm install @node-llama-cpp/${names.at(-1)}@3.21.1", ` +
      'or build it with "make engine" and point PLIMSOLL_ENGINE_DIR at it',
  );
}
