import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package's folder, wherever the compiled files lie inside it (dist/, build/, an installed package). */
export const packageRoot: string = findRoot(dirname(fileURLToPath(import.meta.url)));

export const packageVersion: string = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version;

function findRoot(from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    // A build may write a package.json of its own beside its output; only the package's has the models beside it.
    if (existsSync(join(folder, 'package.json')) && existsSync(join(folder, 'models', 'registry.json'))) return folder;
    if (folder === dirname(folder)) throw new Error(`no package folder above ${from}`);
  }
}
