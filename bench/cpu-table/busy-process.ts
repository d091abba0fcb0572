import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A process that wants a core for itself, until it is stopped. */
export class BusyProcess {
  private readonly child = spawn(process.execPath, ['-e', 'for(;;);'], { stdio: 'ignore' });

  constructor() {
    running.add(this.child);
    this.child.once('exit', () => running.delete(this.child));
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}
