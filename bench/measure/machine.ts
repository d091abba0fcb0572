import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** What a number was measured on. */
export interface Conditions {
  cpu: string;
  cores: number;
  memoryGib: number;
  system: string;
  node: string;
  commit: string;
  command: string;
  /** One-minute load average when the run began: above 0.5 or so the machine had other things to do. */
  loadBefore: number;
  /** Nice value of the scheduler's group that the run is in (Linux autogroups); 0: as everything else. */
  groupNice: number;
  date: string;
}

export function conditions(): Conditions {
  return {
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGib: Math.round(os.totalmem() / 2 ** 30),
    system: `${os.type()} ${os.release().split('-')[0]} ${os.arch()}`,
    node: process.version,
    commit: commit(),
    command: commandLine(),
    loadBefore: Math.round(os.loadavg()[0] * 100) / 100,
    groupNice: groupNice(),
    date: new Date().toISOString().slice(0, 10),
  };
}

export function describe(c: Conditions): string {
  const priority = c.groupNice < 0 ? `, the run preferred to other work (group nice ${c.groupNice})` : '';
  return (
    `${c.date}, commit ${c.commit}: ${c.cores} cores of ${c.cpu}, ${c.memoryGib} GiB, ${c.system}, Node ${c.node}; ` +
    `load average before the run ${c.loadBefore}${priority}. Command: \`${c.command}\``
  );
}

function groupNice(): number {
  try {
    return Number(/nice (-?\d+)/.exec(readFileSync('/proc/self/autogroup', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function commit(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    const isDirty = git('status', '--porcelain', '--untracked-files=no', '--', 'src', 'addon') !== '';
    return git('rev-parse', '--short', 'HEAD') + (isDirty ? ' with changes' : '');
  } catch {
    return 'unknown';
  }
}

function commandLine(): string {
  const script = process.argv[1].replace(/^.*\/build\//, 'build/');
  // Where a folder lies on the machine that measured is nobody's business.
  const args = process.argv.slice(2).map((text) => (path.isAbsolute(text) ? `…/${path.basename(text)}` : text));
  return ['node', script, ...args].join(' ');
}
