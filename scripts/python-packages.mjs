import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from './cache-folder.mjs';
import { firstLine, run, StepError } from './steps.mjs';

/**
 * A Python that can import the given packages. They are installed once into a folder of the cache, with `pip --target`: the
 * system's Python stays as it is, and no venv module is needed, which Debian keeps in a package of its own.
 *
 * @param {string[]} requirements as pip takes them
 * @returns {Promise<{ program: string, env: NodeJS.ProcessEnv }>}
 */
export async function pythonWith(requirements) {
  const program = 'python3';
  const version = firstLine(program, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']);
  if (!version) throw new StepError('Python 3 is not installed', `install it: ${remedy('python3')}`);
  const key = requirements.join('_').replace(/[^\w.]+/g, '-');
  const folder = join(cacheFolder(), 'python', `${version}-${key}`);
  if (!existsSync(folder)) await install(program, requirements, folder);
  return { program, env: { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' } };
}

async function install(program, requirements, folder) {
  if (!firstLine(program, ['-m', 'pip', '--version'])) {
    throw new StepError('pip for Python 3 is not installed', `install it: ${remedy('python3-pip')}`);
  }
  const draft = `${folder}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  try {
    const args = [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--no-input',
      '--disable-pip-version-check',
      '--only-binary=:all:',
    ];
    const code = await run(program, [...args, '--root-user-action=ignore', '--target', draft, ...requirements]);
    if (code !== 0) {
      throw new StepError(`pip could not install ${requirements.join(' ')}`, 'check the network and `pip config list`');
    }
    // All or nothing; a second process that was faster has put the same packages there.
    if (!existsSync(folder)) renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

function remedy(debianPackage) {
  return process.platform === 'darwin' ? 'xcode-select --install' : `apt-get install ${debianPackage}`;
}
