import { readFile } from 'node:fs/promises';
import { type Config, ConfigError, parseConfig } from '../../shared/config.js';
import { CliError, EXIT_FAILED } from './cli-error.js';

/**
 * Adds the keys of `--api-key-file`: one a line; empty lines and lines that begin with # are skipped.
 * @throws CliError when the file cannot be read, has no key, or has something that is none. The text of a key is never shown.
 */
export async function withKeysFromFile(config: Config): Promise<Config> {
  const path = config.apiKeyFile;
  if (path === null) return config;
  const keys = (await readText(path))
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  // A file without keys would leave the server open to everybody who can reach it: not what its owner meant.
  if (keys.length === 0) throw new CliError(EXIT_FAILED, `--api-key-file ${path} has no key in it`);
  try {
    return parseConfig({ ...config, apiKeys: [...config.apiKeys, ...keys] });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(
      EXIT_FAILED,
      `--api-key-file ${path} has a line that is no key (visible ASCII characters without spaces)`,
    );
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CliError(EXIT_FAILED, `--api-key-file ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
